"""What builds a release of the patched vLLM, and what checks one."""
