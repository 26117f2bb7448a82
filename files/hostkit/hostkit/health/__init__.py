"""What tells that something is wrong, what is kept of it, and who is told."""
