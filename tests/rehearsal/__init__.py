"""A throwaway host with a real systemd, reached by SSH: `python -m tests.rehearsal --help`."""
