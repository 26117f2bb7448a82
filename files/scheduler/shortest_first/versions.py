"""The versions of vLLM whose scheduler this package was tested on.

vLLM's scheduler is not a public interface: any other version is refused until the tests have passed
on it. The deploy reads the list, too.
"""

CHECKED = ("0.30.0", "0.31.0")


def check(version: str) -> None:
    """Raise ImportError unless this version of vLLM is one of them; its local label is ignored."""
    if version.partition("+")[0] not in CHECKED:
        raise ImportError(
            f"shortest_first was checked on vLLM {' and '.join(CHECKED)}, this is {version}: "
            "leave --scheduler-cls away, or run the scheduler's tests on it and add it to CHECKED"
        )
