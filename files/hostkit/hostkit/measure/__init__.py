"""What a server does under load, how fast it is, and whether its answers are right."""
