"""The replay of a run, as its settings, its environments and its policy need it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from maze_core.base.errors import MazeError
from maze_core.base.seeding import EpisodeSeeds, Purpose, generator, integer_seed
from maze_core.base.tree import copy_tree, take_rows
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import agents_of
from maze_core.models.memory import remembers
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.params import setting
from maze_offpolicy.collect.pairs import AGENTS, HINDSIGHT, MEMORY, refused
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.frames import TRIED, find_stacks, may_be_stacks
from maze_offpolicy.replay.goals import GoalRewards
from maze_offpolicy.replay.hindsight import Hindsight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core.envs.vector import VectorEnv
    from maze_core.plugins.hookspecs import Run
    from maze_offpolicy.collect.memory import ReplayMemory
    from maze_offpolicy.replay.frames import FrameStack
    from maze_offpolicy.replay.selectors import Selector
    from maze_offpolicy.replay.transforms import Transform


def replay_of(
    run: Run,
    env: VectorEnv,
    capacity: int,
    priority_exponent: float | None,
    memory: ReplayMemory | None,
    her_goals: int,
    selector: Selector | None,
    transforms: Sequence[Transform],
) -> ReplayBuffer:
    """Return the empty replay of a run; arguments as for `ReplayCollector`.

    Raises:
        ConfigError: it does not fit into memory, or the environments have no goals to exchange.
    """
    where = setting(run.config.algorithm, "replay_buffer_size")
    if memory is not None:
        selector = memory.selector(env.num_envs, priority_exponent)
    if her_goals:
        transforms = [_hindsight(run, env, her_goals), *transforms]
    agents = len(agents_of(env))
    agent_rows = env.num_envs if agents else 0
    stacks = _frame_stacks(run) if not her_goals and not agent_rows else {}
    spaces = env.observation_space, env.action_space
    return ReplayBuffer(
        *spaces,
        capacity,
        where,
        priority_exponent,
        transforms,
        stacks,
        agent_rows,
        selector,
        agents=max(agents, 1),
        info_columns=run.algorithm.info_columns,
    )


def _frame_stacks(run: Run) -> dict[str, FrameStack]:
    """Return the leaves that are stacks of frames, judged by some random steps in one more environment."""
    specs = space_specs(run.observation_space, "observation")
    if not may_be_stacks(specs):
        return {}
    builder, rng = run.env_builder("trial"), generator(run.seed, Purpose.REPLAY)
    seen = []
    try:
        with closing(SerialVectorEnv(builder.single, 1)) as env:
            policy = RandomPolicy(PluginConfig())
            policy.setup(env.observation_space, env.action_space)
            obs = allocate(specs, (1,))
            env.reset(EpisodeSeeds(run.seed, Purpose.REPLAY), obs)
            for _ in range(TRIED):
                seen.append(copy_tree(take_rows(obs, 0)))
                if len(env.step(policy.act(obs, [rng]), obs).final_indices):
                    break
    except MazeError:
        return {}  # an environment that fails says so in training; what cannot be tried is stored whole
    return find_stacks(specs, seen)


def _hindsight(run: Run, env: VectorEnv, goals: int) -> Hindsight:
    """Return what exchanges goals, by the rewards of one more environment. Errors as for `GoalRewards`."""
    where = setting(run.config.algorithm, "her_goals")
    if agents_of(env):
        raise refused(HINDSIGHT, AGENTS, where)
    if remembers(run.policy):
        raise refused(HINDSIGHT, MEMORY, where)
    return Hindsight(GoalRewards(run.spare_env(), where, integer_seed(run.seed, Purpose.REPLAY)), goals)
