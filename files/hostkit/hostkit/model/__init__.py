"""A model's folder: fetched, checked, packed."""
