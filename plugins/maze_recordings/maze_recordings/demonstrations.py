"""Recorded episodes to learn from, with rewards in the units of the run's own environments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from maze_actors.agents import MultiAgentEnv, WrappedAgents
from maze_actors.wrapped import WrappedParts

from maze_core import ConfigError
from maze_core.envs.wrappers import layers
from maze_core.plugins.closing import releasing
from maze_recordings.loader import load_trajectories
from maze_recordings.obeyed_masks import check_masks

if TYPE_CHECKING:
    from pathlib import Path

    from maze_core import PluginConfig, VectorEnv
    from maze_core.plugins.hookspecs import Run
    from maze_recordings.trajectories import Trajectories

_Normalizing = gymnasium.wrappers.NormalizeReward


def demonstrations(run: Run, env: VectorEnv, path: Path, where: str) -> Trajectories:
    """Return the recorded episodes at a path, with rewards in the units of a run's own environments.

    `maze_offpolicy.collect.demonstrations` calls it for a path to a recording, or a folder of recordings, that the
    setting `where` names; `env`: the training environments.

    Raises:
        TrajectoryError: there is no recording, or one is damaged, has other spaces or an action that its mask forbids.
        ConfigError: as for `as_trained`.
    """
    recorded = load_trajectories(path)
    recorded.check_fits(env.observation_space, env.action_space, f"{where}: {path}")
    check_masks(recorded, f"{where}: {path}")
    return in_units_of(run, recorded, where)


def in_units_of(run: Run, recorded: Trajectories, where: str) -> Trajectories:
    """Return recorded episodes with rewards in the units of a run. Arguments and errors as for `as_trained`."""
    builder = run.env_builder("training")
    if not run.config.wrappers:
        return recorded
    if not builder.several_agents:
        return as_trained(recorded, run.spare_env(), run.config.wrappers, where)
    with releasing(builder.agents_env(0)) as env:
        return as_trained(recorded, env, run.config.wrappers, where)


def as_trained(
    recorded: Trajectories,
    env: gymnasium.Env[Any, Any] | MultiAgentEnv,
    wrappers: Sequence[PluginConfig],
    where: str,
) -> Trajectories:
    """Return recorded episodes with the rewards that a run's wrappers would have made of them.

    A wrapper that changes each reward on its own is applied. Where rewards are normalised by running statistics, those
    that were recorded after the same wrappers count.

    Args:
        recorded: the episodes.
        env: one of the run's environments, wrapped.
        wrappers: the configuration of its wrappers.
        where: the setting that names the recording.

    Raises:
        ConfigError: rewards are normalised, and those after the same wrappers were not recorded.
    """
    changing = [each for each in _layers(env) if isinstance(each, gymnasium.RewardWrapper | _Normalizing)]
    if not changing:
        return recorded
    theirs = recorded.description.source.get("wrappers")
    if recorded.wrapped_rewards is not None and theirs == [each.model_dump(mode="json") for each in wrappers]:
        return replace(recorded, rewards=recorded.wrapped_rewards)
    if any(isinstance(each, _Normalizing) for each in changing):
        raise ConfigError(
            "this run normalises its rewards, and the recording holds those of the environment, in other units",
            where,
            "Next: record with the same wrappers, maze rollout RUN --record DIR --wrapped-rewards; or leave the "
            "wrapper out",
        )
    rewards = recorded.rewards.tolist()
    for each in reversed(changing):
        rewards = [each.reward(reward) for reward in rewards]  # type: ignore[union-attr]
    return replace(recorded, rewards=np.array(rewards, np.float32))


def _layers(env: gymnasium.Env[Any, Any] | MultiAgentEnv) -> Iterator[gymnasium.Env[Any, Any]]:
    """Yield the wrappers of an environment from the outside in; where several agents act, those of one's part."""
    if not isinstance(env, MultiAgentEnv):
        yield from layers(env)
    while isinstance(env, WrappedAgents):
        if isinstance(env, WrappedParts):
            yield from layers(env.wrapped[env.agents[0]])
        env = env.env
