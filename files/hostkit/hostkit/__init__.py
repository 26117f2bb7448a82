"""The programs that live on the host.

Standard library only, so that they work when a release is broken.
"""
