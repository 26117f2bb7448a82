"""First requests to a server that has just started: what is compiled late is compiled by these."""

from hostkit.host.jobs import progress
from hostkit.serving import server

# One short and one longer than a step's token budget, so that prefill, decode and both mixed run.
_PROMPTS = ("One, two, three,", "The quick brown fox jumps over the lazy dog. " * 60)
TOKENS = 16


def run(found: server.Server) -> None:
    """Ask for short answers of each kind; NotAnswering when one does not come."""
    progress("warming up")
    for prompt in _PROMPTS:
        server.complete(found, prompt, TOKENS)
