"""The programs behind the measured figures of README and docs, each run by hand."""
