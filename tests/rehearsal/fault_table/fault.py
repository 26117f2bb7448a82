"""A fault: how it comes over a host that serves, what a run then says, and how it goes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One row of the table. `plant` and `remove` are shell commands of root on the host.

    They may use what `endure` sets: $N, the number of the generation that runs, $G its folder, $R
    its release, $V that release's packages, $M its model, $PORT, and the functions of shell.sh.

    With `said`, a run of `task` is refused, one line of it has all these words, and `remove` is
    what the operator then does; the next run converges. Without `said` the run itself converges,
    and one line has all the words of `shown`. `data` is given to each run, and is deployed before
    the fault comes; `change` is given to each run and is new to the host when the fault is there.
    """

    kind: str
    name: str
    where: str
    plant: str
    remove: str = ""
    said: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    task: str = "deploy.py"
    data: tuple[str, ...] = ()
    change: tuple[str, ...] = ()
    untouched: bool = True
    """The process that serves is the same before and after; False where something ends it."""
    meanwhile: bool = False
    """It is the same until `remove`, for the remedy has it stopped."""
    answers: bool = True
    """It answers while the fault is there."""
    daily: bool = False
    """Part of `make test`, not only of `make campaign`."""

    @property
    def must_hold(self) -> str:
        """The third column of the table, beside what holds for every fault."""
        server = "the server goes on" if self.untouched else "a server answers again"
        if self.said:
            return f"`{self.task}` is refused: “{' … '.join(self.said)}”; afterwards {server}"
        shown = f", and says “{' … '.join(self.shown)}”" if self.shown else ""
        return f"`{self.task}` comes to its end{shown}; {server}"
