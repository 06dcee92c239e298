"""The callback `curriculum`: lets a teacher choose the parameters of the next episodes."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from maze_environments.parameters import declared, tried
from pydantic import Field

from maze_core import ConfigError, Plugin, PluginConfig, Purpose, RunError, generator, hookimpl
from maze_core.base.errors import MazeError
from maze_core.base.saved_state import varies
from maze_core.base.seeding import load_random_state, random_state
from maze_core.base.terminal_text import shown
from maze_core.envs.parameters import PARAMETERS
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.validation import named_part
from maze_curricula.space import check_declared, space_of
from maze_curricula.teacher import Teacher

if TYPE_CHECKING:
    from maze_core import Run
    from maze_core.run.report import EpochReport

_TEACHER = "callbacks.curriculum.teacher"
_STREAM = zlib.crc32(b"curriculum")


class CurriculumConfig(PluginConfig):
    """Which parameters change, and who chooses them."""

    teacher: Annotated[str | dict[str, Any], Outside.ARGUMENTS] = "uniform"
    """The plugin that chooses (`maze plugins list teacher`), or a mapping with its name and parameters."""
    parameters: Annotated[dict[str, Any], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Ranges by name, from easy to hard: `[3, 20]`, `[0.0, 2.5]` or `{choices: [ice, sand]}`. A name is one that the
    environment declares, or an argument of its constructor, or `seed`, for levels made from seeds. Empty: all that it
    declares."""
    ahead: Annotated[int, Field(gt=0, le=1000)] = 4
    """Parameters that are chosen for each environment and epoch, which its episodes have in turn."""


class Curriculum(Plugin):
    """Let a teacher choose the parameters of the environment in the next episodes: curricula, domain randomisation.

    At the end of each epoch the teacher sees the finished episodes. What it chose is part of the checkpoint.
    """

    Config: ClassVar[type[PluginConfig]] = CurriculumConfig
    config: CurriculumConfig

    def __init__(self, config: CurriculumConfig) -> None:
        super().__init__(config)
        given = {"name": config.teacher} if isinstance(config.teacher, str) else config.teacher
        plugin, its = named_part("teacher", given, _TEACHER, {})
        self._teacher: Teacher = plugin(its)
        self._rows: list[dict[str, Any]] = []
        """The parameters of the episodes that begin in this epoch."""

    @hookimpl
    def build_modules(self, run: Run) -> None:
        """Set the teacher up."""
        builder = run.env_builder("trial")
        ranges = declared(builder)
        self._space = space_of(self.config.parameters, ranges)
        for row in run.config.evaluation.rows:
            check_declared(row, ranges, "evaluation.parameters")
        self._rng = generator(run.seed, Purpose.PLUGIN, _STREAM)
        for values in self._space.ends():
            tried(builder, values)
        self._called("setup", lambda: self._teacher.setup(self._space, self._rng))

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Choose the first parameters, or go on with those of the checkpoint."""
        if not self._rows:
            self._choose(run)
        run.environments.instruct(self._rows)

    @hookimpl
    def on_metrics(self, run: Run, metrics: Mapping[str, float]) -> dict[str, float]:
        """Return the means of the parameters in the episodes of the epoch, and what the teacher says of itself."""
        played = [episode.parameters for episode in run.statistics.finished if episode.parameters]
        means = {f"env/{name}": fmean(float(each[name]) for each in played) for name in self._space.numeric if played}
        own: dict[str, float] = self._called("metrics", self._own_metrics)
        return means | own

    def _own_metrics(self) -> dict[str, float]:
        return {f"curriculum/{name}": float(value) for name, value in self._teacher.metrics().items()}

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Let the teacher see the epoch, and choose the next parameters."""
        seen = [each for each in run.statistics.finished if each.parameters]
        self._called("see", lambda: self._teacher.see(seen, epoch.metrics))
        try:
            self._choose(run)
        except ConfigError as error:  # here it would be a warning, and the run would go on with the old parameters
            raise RunError(str(error)) from error
        run.environments.instruct(self._rows)

    def state(self) -> dict[str, Any]:
        """Return the state of the teacher, and the parameters of the episodes that begin now."""
        return {
            "teacher": self._teacher.state(),
            "rng": random_state(self._rng),
            "rows": varies(self._rows, PARAMETERS),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        for values in state["rows"]:
            self._space.check(values, "the saved run")
        self._teacher.load_state(state["teacher"])
        load_random_state(self._rng, state["rng"])
        self._rows = [dict(each) for each in state["rows"]]

    def _choose(self, run: Run) -> None:
        count = self.config.ahead * run.environments.count
        chosen: Any = self._called("next", lambda: self._teacher.next(count))
        name = self._teacher.config.name
        if not isinstance(chosen, Sequence) or len(chosen) != count:
            raise ConfigError(f"{name} chose {shown(chosen)}, not the parameters of {count} episodes", _TEACHER)
        for values in chosen:
            self._space.check(values, name)
        self._rows = [dict(each) for each in chosen]

    def _called(self, method: str, call: Any) -> Any:
        """Return what a method of the teacher returns. Raises RunError where it raises."""
        try:
            return call()
        except MazeError:
            raise
        except Exception as error:
            raise RunError(
                f"{method} of the teacher {self._teacher.config.name!r} raised {type(error).__name__}: {error}"
            ) from error
