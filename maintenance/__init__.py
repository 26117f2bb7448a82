"""What keeps patches and locks up to date; run through make."""
