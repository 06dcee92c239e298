"""The base of policy plugins: acting without learning, by chance, by rule or by search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.config.base import PluginConfig

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

    from maze_core.envs.vector import Tree
    from maze_core.plugins.discovery import Loader


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

    def __init__(self, config: Any) -> None:
        self.config = config

    def setup(self, observation_space: Space[Any], action_space: Space[Any]) -> None:  # noqa: B027 — optional
        """Look at the spaces of a single environment, before anything else is called.

        Raises:
            ConfigError: this policy is for other spaces.
        """

    def begin(self, row: int) -> None:  # noqa: B027 — most policies remember nothing
        """A new episode begins in a row: forget what was remembered of the one before."""

    @abstractmethod
    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Choose an action for every row.

        Args:
            obs: leaves [N, …] in storage dtype; the arrays are reused after the call.
            rngs: a random generator for each of the N rows. Chance comes from here only, so that an episode is the
                same whichever environments it is played beside.

        Returns:
            Leaves [N, …] in environment units; discrete values count from 0.
        """

    def state(self) -> dict[str, Any]:
        """What it remembers of unfinished episodes: nested dicts of plain values and arrays."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Take up a state that `state` gave."""


def build_policy_plugin(
    config: PluginConfig,
    observation_space: Space[Any],
    action_space: Space[Any],
    load: Loader,
) -> ActingPolicy:
    """Build a policy plugin for an environment, from its configuration.

    Raises:
        ConfigError: there is no such policy, or it is for other spaces.
        PluginError: it is no `ActingPolicy`.
    """
    from maze_core.errors import PluginError

    plugin: Callable[[Any], Any] = load("policy", config.name)
    policy = plugin(config)
    if not isinstance(policy, ActingPolicy):
        raise PluginError(f"policy plugin {config.name!r}: {type(policy).__name__} does not derive from ActingPolicy")
    policy.setup(observation_space, action_space)
    return policy
