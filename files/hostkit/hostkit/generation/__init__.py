"""A generation is a release with what it is told: kept, checked before a start, started."""
