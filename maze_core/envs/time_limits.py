"""Time limits: find environments that have none, and truncate the episodes of those that are watched."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from maze_core.envs.wrappers import layers
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from maze_core.plugins.config.base import PluginConfig

_NAME_OF_A_LIMIT = re.compile(
    r"max.*(step|frame|len|time)|time_?limit|(step|frame)s?_?limit|duration|horizon|episode_len"
)


class EpisodeLimit(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Truncates episodes after `steps` steps; the outermost wrapper."""

    def __init__(self, env: gymnasium.Env[Any, Any], steps: int) -> None:
        super().__init__(env)
        self._limit, self._taken = steps, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and count its steps from 0."""
        self._taken = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; the last step truncates the episode, unless it terminated."""
        result: Any = self.env.step(action)
        self._taken += 1
        if self._taken < self._limit:
            return result  # type: ignore[no-any-return]
        observation, reward, terminated, _, info = result
        return observation, reward, terminated, True, info


def is_limited(env: gymnasium.Env[Any, Any], steps: int) -> bool:
    """Return True where gymnasium's own outermost wrapper truncates episodes after so many steps, or fewer."""
    if type(env) is not gymnasium.wrappers.TimeLimit:
        return False
    own: int = env._max_episode_steps
    return own <= steps


def missing_time_limit(config: PluginConfig, build: Callable[[], gymnasium.Env[Any, Any]], seen: int = 0) -> str | None:
    """Return a warning for an environment registered without a time limit that shows none of its own; else None.

    Many environments have a limit that gymnasium's registry does not know: a wrapper's, or an attribute such as
    `max_steps`. `build` is called only where the registry has none. Unregistered environments get no warning.
    `seen`: steps of the longest episode that has been seen, which the advice leaves whole.
    """
    env_id = str(getattr(config, "id", ""))
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    if spec is None or spec.max_episode_steps is not None or getattr(config, "max_episode_steps", None) is not None:
        return None
    env = build()
    try:
        limited = any(map(_limits_itself, layers(env))) or _names_a_limit(spec.kwargs)
    finally:
        release(env)
    if limited:
        return None
    return (
        f"{env_id} has no registered time limit, so an episode that does not terminate runs for ever."
        f" If that can happen, set a limit: --set env.max_episode_steps={_rounded(max(200, 4 * seen))}"
    )


def _rounded(steps: int) -> int:
    """Return the next number with one digit before its zeros."""
    zeros = int(10 ** (len(str(steps)) - 1))
    return -(-steps // zeros) * zeros


def _limits_itself(layer: gymnasium.Env[Any, Any]) -> bool:
    """Return True for a wrapper or environment with a number that is named like a limit."""
    own = vars(layer)
    settings = [own, *(each for name in ("config", "cfg") if isinstance(each := own.get(name), Mapping))]
    return isinstance(layer, gymnasium.wrappers.TimeLimit | EpisodeLimit) or any(map(_names_a_limit, settings))


def _names_a_limit(values: Mapping[str, Any]) -> bool:
    return any(_is_positive(value) for name, value in values.items() if _NAME_OF_A_LIMIT.search(str(name).lower()))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float | np.number) and value is not True and bool(value > 0)
