"""The host's figures for Prometheus, and what Prometheus says of the server."""
