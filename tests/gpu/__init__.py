"""The rendered profile on a real GPU: pytest -m gpu tests/gpu (README.md says how)."""
