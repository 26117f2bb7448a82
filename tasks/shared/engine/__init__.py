"""What vLLM is told for the settings at hand, what it refuses, and what its log has to show."""
