"""One experiment of bsuite, played through Maze's Python interface while bsuite's own logger watches."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any

from bsuite import bsuite, sweep
from bsuite.logging.csv_logging import Logger
from bsuite.utils.wrappers import Logging

from maze_core import Plugin, RunContext, hookimpl

STEPS = 5_000_000
"""More than any experiment has: the last episode ends a run."""
NO_EVALUATION = {"evaluation.n_episodes": 1, "evaluation.num_envs": 1, "evaluation.max_episode_steps": 1}
"""bsuite scores the episodes of the training. An evaluation cannot be left out, but it can be one step long."""


class Exam:
    """An experiment and the log of the environment that trains.

    Args:
        bsuite_id: such as `catch/0`.
        folder: where bsuite writes its CSV file.
        seed: of the environment's randomness, where bsuite's settings leave it open.
    """

    def __init__(self, bsuite_id: str, folder: Path, seed: int) -> None:
        self.bsuite_id, self.folder, self.seed = bsuite_id, folder, seed
        self.episodes: int = sweep.EPISODES[bsuite_id]
        self.recorded: Recorded | None = None

    def environment(self) -> Recorded:
        """Return one more environment of the experiment."""
        return Recorded(self)

    @property
    def is_finished(self) -> bool:
        """True once all episodes are played."""
        return self.recorded is not None and self.recorded.played >= self.episodes

    @property
    def log(self) -> str:
        """What bsuite's logger wrote."""
        (path,) = self.folder.glob("*.csv")
        return path.read_text()


class Recorded(Logging):
    """An environment of an exam in bsuite's logger, which sees the environment that is stepped first, and no episode
    too many. The others are those of evaluations, which come later.
    """

    def __init__(self, exam: Exam) -> None:
        super().__init__(_made(exam), Logger(exam.bsuite_id, str(exam.folder), overwrite=True))
        self._exam = exam

    @property
    def played(self) -> int:
        """Episodes that were logged."""
        episodes: int = self._episode
        return episodes

    def step(self, action: Any) -> Any:
        """Step, and log what counts."""
        if self._exam.recorded is None:
            self._exam.recorded = self
        counts = self._exam.recorded is self and not self._exam.is_finished
        return super().step(action) if counts else self._env.step(action)


def _made(exam: Exam) -> Any:
    name, _ = bsuite.unpack_bsuite_id(exam.bsuite_id)
    arguments = dict(sweep.SETTINGS[exam.bsuite_id])
    takes_seed = "seed" in inspect.signature(bsuite.EXPERIMENT_NAME_TO_ENVIRONMENT[name]).parameters
    if takes_seed and arguments.get("seed") is None:
        arguments["seed"] = exam.seed
    return bsuite.load(name, arguments)


def play(
    bsuite_id: str, algorithm: str, settings: dict[str, Any], folder: Path, seed: int, epoch: int
) -> dict[str, Any]:
    """Train for the episodes of an experiment.

    Args:
        bsuite_id: the experiment.
        algorithm: the name of Maze's algorithm.
        settings: values by path, as `overrides` of `RunContext`.
        folder: of the run and of bsuite's log; what is in it is deleted.
        seed: of the run and of the environment.
        epoch: updates between two looks at the number of episodes.

    Returns:
        bsuite's log as the text of its CSV file, the seed, and the seconds of the training.
    """
    shutil.rmtree(folder, ignore_errors=True)
    exam = Exam(bsuite_id, folder / "log", seed)

    class LastEpisode(Plugin):
        """Ends the run with the last episode."""

        @hookimpl
        def on_epoch_end(self, run: Any, epoch: Any) -> None:
            if exam.is_finished:
                run.stop("bsuite has all episodes")

    with RunContext(
        exam.environment,
        algorithm,
        callbacks={"last_episode": LastEpisode, "tensorboard": None, "best_checkpoint": None},
        preset="none",
        overrides={**settings, **NO_EVALUATION, "algorithm.epoch_length": epoch},
        seed=seed,
        steps=STEPS,
        run_dir=folder / "run",
        silent=True,
    ) as context:
        summary = context.train()
    if not exam.is_finished:
        raise SystemExit(f"{algorithm} on {bsuite_id}: {summary.outcome}: {summary.reason}")
    return {"seed": seed, "seconds": summary.seconds, "log": exam.log}
