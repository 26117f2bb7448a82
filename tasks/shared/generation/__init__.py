"""A release together with what it is told, and how a host goes from one to another."""
