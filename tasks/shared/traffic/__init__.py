"""What real traffic did, from the counters that a host's Prometheus has kept.

periods says which time is asked for, figures what was counted in it, rows how that reads, charts
and page how it looks.
"""
