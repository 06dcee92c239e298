"""Trains a run for some seconds and measures its parts."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from maze_core.run import api
from maze_profile.parts import PARTS, measured, training_seconds
from maze_profile.stopwatch import Stopwatch, cost_of_a_change

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core import Run, RunConfig

_ALWAYS = ("environment", "acting", "batches", "rest")


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a short run went."""

    seconds: dict[str, float]
    """By part, in the order of `PARTS`; parts that did not occur are missing."""
    total: float
    """The seconds that training took; the sum of the parts."""
    measuring: float
    """An estimate of the seconds that measuring itself took, which are in the parts."""
    env_steps: int
    updates: int
    notes: list[str]
    """What the numbers do not show."""

    @property
    def steps_per_second(self) -> float:
        """Environment steps per second, the time of compiling not counted."""
        return self.env_steps / training_seconds(self.seconds)


def take_profile(config: RunConfig, seconds: float) -> Profile:
    """Train for about `seconds`, at least one update, and return where they went.

    The run has no callbacks and lies in a temporary folder. Its final evaluation is left out.

    Raises:
        MazeError: the configuration does not fit, or the run fails.
    """
    config = config.model_copy(update={"callbacks": {}})
    with TemporaryDirectory(prefix="maze-profile-", ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        run = stack.enter_context(closing(api.start(config, Path(folder) / "run")))
        watch = Stopwatch(_settle(run))
        stack.enter_context(measured(run, watch))
        _limit(run, watch, seconds)
        watch.start()
        try:
            api.carry_out(run)
        finally:
            watch.stop()
        return _profile(run, watch)


def _limit(run: Run, watch: Stopwatch, seconds: float) -> None:
    """Let the run end after the update in which the time is over; that of compiling does not count."""
    count_update = run.count_update

    def counted() -> None:
        count_update()
        if training_seconds(watch.seconds) > seconds and not run.interrupted:
            run.interrupt("the end of the profile")

    run.count_update = counted  # type: ignore[method-assign]


def _settle(run: Run) -> Callable[[], object] | None:
    """Return what waits until the run's device has done what was asked of it; None for a CPU."""
    if run.device.type == "cpu":
        return None
    import torch

    return torch.cuda.synchronize


def _profile(run: Run, watch: Stopwatch) -> Profile:
    seconds = {part: watch.seconds.get(part, 0.0) for part in PARTS if part in watch.seconds or part in _ALWAYS}
    measuring = watch.changes * cost_of_a_change()
    notes = _notes(run, watch)
    if measuring > 0.01 * watch.total:
        notes.append(f"about {measuring / watch.total:.0%} of the time is measuring itself, spread over the parts")
    return Profile(seconds, watch.total, measuring, run.env_steps, run.updates, notes)


def _notes(run: Run, watch: Stopwatch) -> list[str]:
    runner, notes = run.config.runner.name, []
    if runner == "local":
        notes.append(
            "environments and workers are in other processes: their parts are the time until they answer; "
            "what they do meanwhile is not seen"
        )
    elif runner != "dev":
        notes.append(
            f"the runner {runner} works elsewhere: what it does there is not seen, and waiting for it is in the "
            "parts that wait"
        )
    if run.device.type != "cpu":
        notes.append("each part waits for the GPU, so that its work counts where it was asked for: a run is faster")
    if not watch.entered.get("environment"):
        notes.append("steps of environments are not seen: they are taken in the other parts, or in other processes")
    if not watch.entered.get("optimizer"):
        notes.append("Maze's learner took no step: the algorithm was still collecting, or learns by itself")
    if run.config.evaluation_episodes and not watch.entered.get("evaluation"):
        notes.append(
            f"no epoch ended: in a run an evaluation and a checkpoint follow every {run.epoch_length:,} updates"
        )
    return notes
