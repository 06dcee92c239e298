"""The replay of a run: single steps, the steps of several agents, or segments for policies that remember."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.data.lane_replay import LaneReplay
from maze_core.data.replay import ReplayBuffer
from maze_core.envs.vector import agents_of
from maze_core.errors import ConfigError
from maze_core.models.memory import remembers

if TYPE_CHECKING:
    from maze_core.data.segment_replay import SegmentReplay
    from maze_core.envs.vector import VectorEnv
    from maze_core.training.replay_memory import ReplayMemory
    from maze_core.training.run import Run

    Replay = ReplayBuffer | SegmentReplay

_WHERE = "algorithm.replay_buffer_size"


def replay_of(
    run: Run, env: VectorEnv, capacity: int, priority_exponent: float | None, memory: ReplayMemory | None
) -> Replay:
    """Return the empty replay of a run; arguments as for `ReplayCollector`.

    Raises:
        ConfigError: it does not fit into memory, or it would have to remember several agents.
    """
    spaces = env.observation_space, env.action_space
    if agents_of(env) and remembers(run.policy):
        raise ConfigError(
            "the replay of several agents holds single steps, and the policy remembers the steps before",
            "model.memory",
            "Next: --set model.memory=none, or maze train ppo",
        )
    if memory is not None:
        return memory.replay(env, capacity, _WHERE)
    if agents_of(env):
        return LaneReplay(*spaces, capacity, env.num_envs, _WHERE, priority_exponent)
    return ReplayBuffer(*spaces, capacity, _WHERE, priority_exponent)
