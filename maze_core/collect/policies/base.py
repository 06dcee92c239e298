"""The base of policy plugins, which act without learning: at random, by rule or by search."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

    from maze_core.base.tree import Tree


class ActingPolicy(ABC):
    """A policy plugin. It acts for several environments at once, one row each.

    A heuristic is a class with `act` and a line in its package's `pyproject.toml`:

        [project.entry-points."maze.policies"]
        balance = "my_package:Balance"

        class Balance(ActingPolicy):
            def act(self, obs, rngs):
                angle = obs["observation"][:, 2]
                return {"action": (angle > 0).astype("int64")}
    """

    Config: ClassVar[type[PluginConfig]] = PluginConfig
    blind: bool = False
    """True: its actions depend on no observation, nor on where episodes begin. Known after `setup`."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def setup(self, observation_space: Space[Any], action_space: Space[Any]) -> None:  # noqa: B027 — optional
        """Receive the spaces of a single environment, before any other call.

        Raises:
            ConfigError: this policy does not support these spaces.
        """

    def begin(self, row: int) -> None:  # noqa: B027 — most policies remember nothing
        """Begin a new episode in a row: forget the previous one."""

    @abstractmethod
    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Choose an action for every row.

        Args:
            obs: leaves [N, …] in storage dtype; the arrays are reused after the call.
            rngs: a random generator for each of the N rows. Use no other randomness, so that an episode does not
                depend on the other environments.

        Returns:
            Leaves [N, …] in environment units; discrete values count from 0.
        """

    def state(self) -> dict[str, Any]:
        """Return its memory of unfinished episodes: nested dicts of plain values and arrays."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Restore the result of `state()`."""


def build_policy_plugin(config: PluginConfig, observation_space: Space[Any], action_space: Space[Any]) -> ActingPolicy:
    """Return a policy plugin for an environment, built from its configuration.

    Raises:
        ConfigError: there is no such policy, or it does not support these spaces.
        PluginError: it is not an `ActingPolicy`, or its methods take other arguments.
    """
    from maze_core.base.errors import PluginError

    plugin: Callable[[Any], Any] = config.plugin_class("policy")
    if missing := getattr(plugin, "__abstractmethods__", None):
        raise PluginError(f"policy plugin {config.name!r} has no method {', '.join(sorted(missing))}")
    _check_takes(config.name, plugin, "config")
    policy = plugin(config)
    if not isinstance(policy, ActingPolicy):
        raise PluginError(f"policy plugin {config.name!r}: {type(policy).__name__} does not derive from ActingPolicy")
    _check_takes(config.name, policy.setup, "observation_space", "action_space")
    _check_takes(config.name, policy.act, "obs", "rngs")
    _check_takes(config.name, policy.begin, "row")
    policy.setup(observation_space, action_space)
    return policy


def _check_takes(name: str, called: Callable[..., Any], *arguments: str) -> None:
    """Raise PluginError if a policy's class, or a method, does not take the arguments with which it is called."""
    from maze_core.base.blame import definition
    from maze_core.base.errors import PluginError

    try:
        inspect.signature(called).bind(*arguments)
    except TypeError as error:
        wanted = f"must take ({', '.join(arguments)})"
        raise PluginError(f"policy plugin {name!r}: {definition(called) or called} {wanted}: {error}") from None
    except ValueError:  # a built-in has no signature
        return
