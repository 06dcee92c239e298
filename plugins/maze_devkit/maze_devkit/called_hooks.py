"""The check of which hooks of other plugins an algorithm calls: those that it announces and declares, and no others."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError, Plugin, hookimpl
from maze_core.learn.checks import CHANGING, called
from maze_core.run import api
from maze_devkit import runs
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.subject import Subject

if TYPE_CHECKING:
    from maze_planning.planner import Planner

    from maze_core import Loss, Run


class Tracer(Plugin):
    """Implements every hook that not every algorithm calls, changes nothing, and notes which are called."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.called: set[str] = set()

    @hookimpl(wrapper=True)
    def compute_loss(self) -> Generator[None, Loss, Loss]:
        """Note the call."""
        self.called.add("compute_loss")
        return (yield)

    @hookimpl
    def wrap_agent(self) -> None:
        """Note the call."""
        self.called.add("wrap_agent")

    @hookimpl
    def build_planner(self, purpose: str) -> Planner | None:
        """Note the call, where it is for training."""
        self.called |= {"build_planner"} if purpose == "training" else set()
        return None

    @hookimpl
    def change_rollout(self) -> None:
        """Note the call."""
        self.called.add("change_rollout")

    @hookimpl
    def change_transitions(self) -> None:
        """Note the call."""
        self.called.add("change_transitions")

    @hookimpl
    def on_evaluation(self) -> None:
        """Note the call."""
        self.called.add("on_evaluation")


class UnwrappingTracer(Tracer):
    """The same for algorithms that let nobody wrap their agent."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.wrap_agent = None  # type: ignore[assignment,method-assign]


def _calls(subject: Subject) -> None:
    try:
        announced, found = _traced(subject, Tracer)
    except ConfigError:  # its agent cannot be wrapped
        announced, found = _traced(subject, UnwrappingTracer)
    if late := sorted(found - announced):
        raise Failed(
            f"it calls {' and '.join(late)}, but does not say so: runs with plugins that count on it are refused"
        )
    if never := sorted((announced & set(CHANGING)) - found):
        raise Failed(f"it says that it calls {' and '.join(never)}, and a run of two epochs never does")
    declared = subject.plugin.calls
    if declared is not None and (wrong := sorted((set(declared) ^ announced) - {"on_evaluation"})):
        raise Failed(f"its `calls` is {declared}, and of {' and '.join(wrong)} the opposite is true")


def _traced(subject: Subject, tracer: type[Tracer]) -> tuple[set[str], set[str]]:
    """Return the hooks that an algorithm says it calls, and those that it calls, in a run of two epochs."""
    values, more = {"callbacks.tracer.name": "tracer"}, {("callback", "tracer"): tracer}
    folder = subject.folder / tracer.__name__
    try:
        with runs.started(subject, runs.walk(subject), folder, values, more) as run:
            announced = called(run.hooks, run.algorithm)
            api.carry_out(run)
            return announced, _of(run).called
    except ConfigError:
        raise
    except Exception as error:
        raise NotApplicable(runs.BROKEN_RUN) from error


def _of(run: Run) -> Tracer:
    tracer: Tracer = run.hooks.plugin("callback")
    return tracer


CHECK = Check(
    "calls",
    "A run of two epochs calls those hooks of other plugins that the algorithm announces, and that `calls` names.",
    "A plugin that counts on another hook would have no effect, and nobody would be told.",
    "Collect with `RolloutCollector` or `ReplayCollector`, which announce their hooks; with a collector of your own, "
    "call `run.hooks.announce` in `setup`. `calls` names them for `maze plugins info`, and `compute_loss`.",
    _calls,
)
"""The check of the hooks that an algorithm calls."""
