"""The one error of the rehearsal: a sentence for whoever typed the command."""


class RehearsalError(Exception):
    """What went wrong, what was expected and what to do, on one line where it fits."""
