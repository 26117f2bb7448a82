"""The programs that live on the host; `cli` says which module has which command.

Standard library only, so that they work when a release is broken. Each folder uses only itself and
those before it: host, release, model, generation, serving, kv, measure, health, lifecycle, metrics.
"""
