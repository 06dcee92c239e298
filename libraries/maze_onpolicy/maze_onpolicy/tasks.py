"""Tasks of environments, such as goals or winds: drawn from a configuration, or by an environment itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from maze_core import ConfigError
from maze_core.envs.checks import naming
from maze_core.plugins.config.external_fields import Outside

if TYPE_CHECKING:
    import gymnasium


class Range(BaseModel):
    """Numbers drawn evenly between two bounds: one number, or a list of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float | list[float]
    """The smallest value, or that of each element."""
    high: float | list[float]
    """The largest."""

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if np.shape(self.low) != np.shape(self.high):
            raise ValueError("low and high must be two numbers, or two lists of the same length")
        if np.any(np.subtract(self.high, self.low) < 0):
            raise ValueError("low must not be above high")
        return self


Values = Annotated[list[JsonValue], Field(min_length=1)] | Range
"""What a task draws one argument from: a list of values, or a range."""
TaskValues = Annotated[dict[str, Values] | None, Outside.ARGUMENTS]
"""What tasks differ in, a parameter of algorithms: by argument of the environment (`env.kwargs`), values as a list or a
range; `{}`: all tasks are the environment as it is; None: the environment's own, which has `sample_task(rng)` and
`set_task(task)`."""


class Tasks:
    """Draws tasks: arguments of environments by name, or what an environment's `sample_task` returns.

    Args:
        values: the parameter `algorithm.tasks`.
        env: an environment of the run.

    Raises:
        ConfigError: the environment has no tasks of its own and the configuration names none.
    """

    def __init__(self, values: Mapping[str, Values] | None, env: gymnasium.Env[Any, Any]) -> None:
        self._values, self._env = values, env
        if values is None and not all(env.has_wrapper_attr(name) for name in ("sample_task", "set_task")):
            raise ConfigError(
                "tasks are needed, and the environment has no sample_task and set_task of its own",
                "algorithm.tasks",
                "Next: name arguments of the environment with their values, such as "
                """--set 'algorithm.tasks={"goal": {"low": -1, "high": 1}}'""",
            )

    def draw(self, rng: np.random.Generator) -> Any:
        """Return a task, which can be sent to other processes."""
        if self._values is not None:
            return {name: _drawn(values, rng) for name, values in self._values.items()}
        with naming("sample_task of the environment"):
            return self._env.get_wrapper_attr("sample_task")(rng)


def _drawn(values: Values, rng: np.random.Generator) -> Any:
    if isinstance(values, Range):
        return np.asarray(rng.uniform(values.low, values.high)).tolist()
    return values[rng.integers(len(values))]
