"""Programs that tests have another Python run: a host's, or a release's."""
