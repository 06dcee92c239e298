"""The replay of a run: single steps, with or without exchanged goals, the steps of several agents, or segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.data.goals import Hindsight
from maze_core.data.lane_replay import LaneReplay
from maze_core.data.replay import ReplayBuffer
from maze_core.envs.goals import GoalRewards
from maze_core.envs.vector import agents_of
from maze_core.errors import ConfigError
from maze_core.models.memory import remembers
from maze_core.seeding import Purpose, integer_seed

if TYPE_CHECKING:
    from maze_core.data.segment_replay import SegmentReplay
    from maze_core.envs.vector import VectorEnv
    from maze_core.training.replay_memory import ReplayMemory
    from maze_core.training.run import Run

    Replay = ReplayBuffer | SegmentReplay

_WHERE = "algorithm.replay_buffer_size"


def replay_of(
    run: Run,
    env: VectorEnv,
    capacity: int,
    priority_exponent: float | None,
    memory: ReplayMemory | None,
    her_goals: int,
) -> Replay:
    """Return the empty replay of a run; arguments as for `ReplayCollector`.

    Raises:
        ConfigError: it does not fit into memory, or the environments have no goals to exchange.
    """
    spaces = env.observation_space, env.action_space
    hindsight = _hindsight(run, env, her_goals) if her_goals else None
    if memory is not None:
        return memory.replay(env, capacity, _WHERE)
    if agents_of(env):
        return LaneReplay(*spaces, capacity, env.num_envs, _WHERE, priority_exponent)
    return ReplayBuffer(*spaces, capacity, _WHERE, priority_exponent, hindsight)


def _hindsight(run: Run, env: VectorEnv, goals: int) -> Hindsight:
    """Return what exchanges goals, by the rewards of one more environment. Errors as for `GoalRewards`."""
    where = "algorithm.her_goals"
    if agents_of(env):
        problem = "goals are exchanged in the steps of one agent, and several act here"
        raise ConfigError(problem, where, "Next: --set algorithm.her_goals=0")
    if remembers(run.policy):
        raise ConfigError(
            "goals are exchanged in single steps, and the policy remembers the steps before",
            where,
            "Next: --set algorithm.her_goals=0, or --set model.memory=none",
        )
    return Hindsight(GoalRewards(run.spare_env(), where, integer_seed(run.seed, Purpose.REPLAY)), goals)
