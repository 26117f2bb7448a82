"""A load test: what is asked of a server, what came of it, and how that compares."""
