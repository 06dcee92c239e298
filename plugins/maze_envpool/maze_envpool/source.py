"""The env source `envpool`."""

from __future__ import annotations

import difflib
import importlib
from typing import Annotated, Any, ClassVar

import gymnasium
from pydantic import Field, JsonValue, NonNegativeInt, PositiveInt

from maze_core import ConfigError, Plugin, PluginConfig, hookimpl
from maze_core.base.terminal_text import shown
from maze_core.plugins.config.external_fields import Outside

_PREFIX = "envpool:"
VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


class EnvPoolConfig(PluginConfig):
    """The parameters of `envpool`."""

    id: str = Field(min_length=1)
    """The environment in EnvPool's spelling, such as `Pong-v5` or `envpool:Pong-v5`, which needs no env source."""
    kwargs: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """EnvPool's own options of this environment, such as `repeat_action_probability`."""
    training: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Options for training alone, such as `episodic_life`; evaluations and rollouts go without."""
    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated; none: EnvPool's limit of this environment."""
    threads: NonNegativeInt = 0
    """Threads that step the environments; 0: EnvPool chooses."""


class EnvPoolSource(Plugin):
    """Environments of EnvPool, many at once, stepped by threads in C++.

    Raises:
        ConfigError: envpool is not installed, or it has no such environment or option.
    """

    Config: ClassVar[type[PluginConfig]] = EnvPoolConfig

    @hookimpl
    def make_vector_env(self, config: EnvPoolConfig, num_envs: int, seed: int, purpose: str) -> VectorEnv:
        """Build the environments."""
        env_id = config.id.removeprefix(_PREFIX)
        _check_id(env_id)
        from maze_envpool.pool import Pool

        _check_options(config, env_id)
        options: dict[str, Any] = {**config.kwargs, **(config.training if purpose == "training" else {})}
        if config.max_episode_steps is not None:
            options["max_episode_steps"] = config.max_episode_steps
        return Pool(env_id, num_envs, seed, {**options, "num_threads": min(config.threads, num_envs)})

    @staticmethod
    def knows(env_id: str) -> bool:
        """Return True for ids such as `envpool:Pong-v5`."""
        return env_id.startswith(_PREFIX)

    @staticmethod
    def environments() -> list[str]:
        """Return the ids of all environments; empty where envpool is not installed."""
        try:
            return sorted(_envpool().list_all_envs())
        except ConfigError:
            return []


def _check_id(env_id: str) -> None:
    known = _envpool().list_all_envs()
    if env_id in known:
        return
    bare = env_id.removeprefix("ALE/")
    near = difflib.get_close_matches(bare, known, n=2, cutoff=0.7)
    hint = f"Did you mean {' or '.join(near)}?" if near else "`maze envs list envpool` lists the environments."
    raise ConfigError(f"EnvPool has no environment {shown(env_id)}", "env.id", hint)


def _check_options(config: EnvPoolConfig, env_id: str) -> None:
    known = sorted(set(_envpool().make_spec(env_id).config._fields) - set(_SET_BY_MAZE))
    for place, options in (("kwargs", config.kwargs), ("training", config.training)):
        for name in options:
            if name in _SET_BY_MAZE:
                raise ConfigError("is not an option here: Maze sets it", f"env.{place}.{name}", _SET_BY_MAZE[name])
            if name not in known:
                from maze_core.plugins.config.explain import nearest

                raise ConfigError(f"{config.id} has no such option; {nearest(name, known)}", f"env.{place}.{name}")


_HIDDEN = "It has no equivalent."
_SET_BY_MAZE = {
    "num_envs": "Use the algorithm's parameter, such as --num-envs.",
    "seed": "Use --seed.",
    "env_seed": "Use --seed.",
    "max_episode_steps": "Use env.max_episode_steps.",
    "num_threads": "Use env.threads.",
    "batch_size": _HIDDEN,
    "max_num_players": _HIDDEN,
    "base_path": _HIDDEN,
    "gym_reset_return_info": _HIDDEN,
}
"""EnvPool's options that are no options here, with what to use instead."""


def _envpool() -> Any:
    try:
        return importlib.import_module("envpool")
    except ImportError as error:
        raise ConfigError(
            f"this needs envpool: {error}", "env.name", 'Install it: pip install "envpool>=1.2,<2"'
        ) from error
