"""Builds a policy with a model plugin, for environments with one actor or with several."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import ACTOR, actors_of
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.distributions.chosen import check_taken
from maze_core.plugins.extensions import extension

if TYPE_CHECKING:
    from collections.abc import Callable

    from gymnasium import Space
    from torch import nn

    from maze_core.base.tree import Tree
    from maze_core.models.policy import Policy

    Build = Callable[[Space[Any], Space[Any], Any], nn.Module]

ACTORS = "maze.actor_policies"
"""The entry-point group for several actors. `build` returns their policy, called as `build_policy` with the actors
after the function; `agents` acts with it outside of training, as `RunContext.agents` asks."""


def build_policy(build: Build, observation_space: Space[Any], action_space: Space[Any], config: Any) -> Policy:
    """Return the policy of an environment, built by a model plugin; one for each group where several actors act.

    Args:
        build: builds a policy for some spaces from a configuration.
        observation_space: the environment's.
        action_space: the environment's.
        config: the model's; `groups`, `actor_one_hot` and `joint_critic` say how actors share networks,
            `delta_critic` whether critics add up the turns of a decision.

    Raises:
        ConfigError: the groups do not fit the actors, or nothing is installed that builds a policy for several.
    """
    check_taken(config, action_space)
    actors = actors_of(observation_space)
    if actors is not None:
        join = extension(ACTORS, "build", "a policy of several actors", "maze-models", "env")
        policy: nn.Module = join(build, actors, observation_space, action_space, config)
    else:
        _check_one_actor(config)
        policy = build_checked(build, observation_space, action_space, config)
    return policy  # type: ignore[return-value]


def build_checked(build: Build, observation_space: Space[Any], action_space: Space[Any], config: Any) -> nn.Module:
    """Return a built policy. Raises ConfigError where it does not score choices as its configuration says."""
    policy = build(observation_space, action_space, config)
    if getattr(config, "choice_features", None) and not getattr(policy, "described", None):
        raise ConfigError(
            f"choices are not scored by their features here: the policy is {type(policy).__name__}",
            "model.choice_features",
            "Next: leave it out, or use ppo, dqn or another algorithm that acts with the model's own policy.",
        )
    return policy


def needs_agent_ids(config: Any) -> bool:
    """Return True where a model's configuration asks who acts, also of agents with equal spaces."""
    return getattr(config, "groups", "shared") != "shared" or bool(getattr(config, "joint_critic", False))


def _check_one_actor(config: Any) -> None:
    """Raise ConfigError where a model is to do what goes with several actors alone."""
    if getattr(config, "delta_critic", False):
        raise ConfigError("no decision of this environment has several turns", "model.delta_critic", "Set it to false.")
    for field, usual in (("groups", "shared"), ("joint_critic", False), ("actor_one_hot", True)):
        if getattr(config, field, usual) != usual:
            problem = "is for environments with several actors, and this one has none"
            raise ConfigError(problem, f"model.{field}", "Next: leave it out.")


def batchable(policy: Any) -> Any:
    """Return a copy of a policy without choices that depend on values, such as which rows belong to which actor."""
    again = copy.deepcopy(policy)
    if isinstance(getattr(again, "dense", None), bool):  # that of several actors
        again.dense = True
    return again


def probe(observation_space: Space[Any], rows: int) -> Tree:
    """Return zeros as observations [B, …]: `rows` of them, or more, so that every actor acts in one."""
    actors = actors_of(observation_space)
    count = rows if actors is None else max(rows, int(actors.n))
    obs = allocate(space_specs(observation_space, "observation"), (count,))
    if actors is not None:
        obs[ACTOR][: int(actors.n)] = range(int(actors.n))
    return obs
