"""The tasks of an update: drawn from the configuration, or by the environment itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maze_core.base.errors import ConfigError, MazeError
from maze_core.envs.faults import failure
from maze_meta.config import MAMLConfig, Range, Values

if TYPE_CHECKING:
    import gymnasium

    from maze_core.run.run import Run


class Tasks(Protocol):
    """Draws tasks."""

    def draw(self, rng: np.random.Generator) -> Any:
        """Return a task, which can be sent to other processes."""


class ArgumentTasks:
    """Tasks that are arguments of the environment's constructor, by name."""

    def __init__(self, values: dict[str, Values]) -> None:
        self._values = values

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return a value of each argument."""
        return {name: _drawn(values, rng) for name, values in self._values.items()}


class OwnTasks:
    """The tasks that an environment draws by its `sample_task(rng)`."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self._env = env

    def draw(self, rng: np.random.Generator) -> Any:
        """Return what the environment draws."""
        try:
            return self._env.get_wrapper_attr("sample_task")(rng)
        except MazeError:
            raise
        except Exception as error:
            raise failure("sample_task of the environment", error) from error


def _drawn(values: Values, rng: np.random.Generator) -> Any:
    if isinstance(values, Range):
        return np.asarray(rng.uniform(values.low, values.high)).tolist()
    return values[rng.integers(len(values))]


def tasks_of(config: MAMLConfig, run: Run) -> Tasks:
    """Return what draws the tasks of a run.

    Raises:
        ConfigError: the environment has no tasks of its own and the configuration names none, or its source takes no
            arguments.
    """
    if config.tasks is None:
        env = run.spare_env()
        if not all(env.has_wrapper_attr(name) for name in ("sample_task", "set_task")):
            raise ConfigError(
                f"{config.name} needs tasks, and the environment has no sample_task and set_task of its own",
                "algorithm.tasks",
                "Next: name arguments of the environment with their values, such as "
                """--set 'algorithm.tasks={"goal": {"low": -1, "high": 1}}'""",
            )
        return OwnTasks(env)
    if config.tasks and "kwargs" not in type(run.config.env).model_fields:
        raise ConfigError(
            f"the environment source {run.config.env.name!r} takes no arguments for its environments",
            "algorithm.tasks",
            "Next: give the environment sample_task and set_task, and leave algorithm.tasks out.",
        )
    return ArgumentTasks(config.tasks)
