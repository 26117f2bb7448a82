"""The server that runs: asked, looked at, and compared with how it last started well."""
