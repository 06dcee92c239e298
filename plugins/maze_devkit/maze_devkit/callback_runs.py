"""The runs with which callbacks are tested: short ones that collect rollouts, or learn from a replay buffer."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core import MazeError
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.kinds import implemented
from maze_core.run import api
from maze_devkit.findings import Failed
from maze_devkit.probes import Walk
from maze_devkit.reference import Reference, Replayed
from maze_devkit.runs import quick
from maze_devkit.subject import AnyEnv, Subject

if TYPE_CHECKING:
    from maze_core import Run

EPOCHS = 3
LEARNING = (
    "build_modules",
    "compute_loss",
    "wrap_agent",
    "build_planner",
    "change_rollout",
    "change_transitions",
    "build_policy",
)
"""Hooks with which a callback affects what is learned."""


def _all_told(run: Run) -> dict[str, float]:
    """Evaluate and save within an epoch: observers are told of both."""
    run.evaluate_within_epoch({})
    run.save_checkpoint("best")
    return {}


class _Telling(Reference):
    """Collects rollouts; calls all hooks of observers in each epoch."""

    calls = ("compute_loss", "on_evaluation")

    def epoch_metrics(self) -> dict[str, float]:
        """Evaluate and save within the epoch."""
        return _all_told(self._run)


class _TellingReplayed(Replayed):
    """Learns from a replay buffer; calls all hooks of observers in each epoch."""

    calls = ("compute_loss", "on_evaluation")

    def epoch_metrics(self) -> dict[str, float]:
        """Evaluate and save within the epoch."""
        return _all_told(self._run)


_ALGORITHMS: Mapping[str, type[Any]] = {"reference": _Telling, "replayed": _TellingReplayed}


def algorithms(subject: Subject) -> list[str]:
    """Return the kit's algorithms that call the hooks of a callback with which it changes data; else the first."""
    own = set(hooks_of(subject))
    replayed = "change_transitions" in own and "wrap_agent" not in own
    rollouts = not replayed or "change_rollout" in own
    return [name for name, wanted in (("reference", rollouts), ("replayed", replayed)) if wanted]


def hooks_of(subject: Subject) -> list[str]:
    """Return the hooks of the callback, as its trial builds it."""
    return implemented(subject.build())


@contextmanager
def started(
    subject: Subject, folder: Path, algorithm: str | None = None, env: AnyEnv | None = None, instead: Any = None
) -> Iterator[Run]:
    """Start a run of three epochs with the callback, or with the replacement of its class.

    Args:
        subject: the callback.
        folder: the run directory.
        algorithm: of the kit; None: the first of `algorithms`.
        env: builds environments; None: those of the trial, or the kit's.
        instead: replaces the callback's class.
    """
    config, name = subject.config, subject.name
    algorithm = algorithm or algorithms(subject)[0]
    assembly = kit_assembly(subject, {("callback", name): instead} if instead else {}, env)
    flags = {
        **quick(subject.walk.run, assembly),
        "env.name": "factory",
        "seed": 1,
        "algorithm.name": algorithm,
        "algorithm.n_epochs": EPOCHS,
        "algorithm.epoch_length": 2,
        **subject.walk.run,
        f"callbacks.{name}": config.model_dump(mode="json"),
    }
    with closing(api.start(assembly.assemble(preset="none", flags=flags), folder)) as run:
        yield run


def kit_assembly(
    subject: Subject, more: Mapping[tuple[str, str], Any] | None = None, env: AnyEnv | None = None
) -> Assembly:
    """Return an assembly with the callback, an environment, the kit's algorithms, and `more` classes."""
    kits = {("algorithm", name): algorithm for name, algorithm in _ALGORITHMS.items()}
    return subject.assembly(env or subject.walk.env or Walk, {**kits, **(more or {})})


@contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Suppress output; what goes to standard error can be read."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        yield said


def given_up(said: io.StringIO) -> str | None:
    """Return the first line that says that a hook failed and is no longer called."""
    return next((line for line in said.getvalue().splitlines() if "failed and is no longer called" in line), None)


def observes(subject: Subject) -> None:
    """Raise Failed if a run with the callback fails, or a hook of it."""
    for algorithm in algorithms(subject):
        with quiet() as said:
            try:
                with started(subject, subject.folder / algorithm, algorithm) as run:
                    api.carry_out(run)
            except MazeError as error:
                raise Failed(f"a run with it fails: {error}") from error
        if broken := given_up(said):
            raise Failed(broken)
