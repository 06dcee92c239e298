"""The replay of a run: built as its settings, environments and policy need it; sampled in order, and saved.

`replay_of` builds the buffer, `StoredReplay` samples it and keeps its rows in the run directory.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from maze_core import EpisodeSeeds, MazeError, PluginConfig, Purpose, generator, remembers, take_rows
from maze_core.base.seeding import integer_seed, load_random_state, random_state
from maze_core.base.tree import copy_tree
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import agents_of
from maze_core.plugins.config.params import setting
from maze_offpolicy.collect.pairs import AGENTS, HINDSIGHT, MEMORY, refused
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.frames import TRIED, find_stacks, may_be_stacks
from maze_offpolicy.replay.goals import GoalRewards
from maze_offpolicy.replay.hindsight import Hindsight
from maze_offpolicy.replay.log import ReplayLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core import Batch, VectorEnv
    from maze_core.plugins.hookspecs import Run
    from maze_offpolicy.collect.replay_memory import ReplayMemory
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
        info_columns=run.config.info_columns,
    )


def _frame_stacks(run: Run) -> dict[str, FrameStack]:
    """Return the leaves that are stacks of frames, found by some random steps in one more environment."""
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


class StoredReplay:
    """Samples a replay buffer for a run, and writes its rows into the run directory with each checkpoint.

    Args:
        run: provides the seed, the device, the folder and the hooks.
        buffer: the rows.
    """

    def __init__(self, run: Run, buffer: ReplayBuffer) -> None:
        self._run, self.buffer = run, buffer
        run.hooks.announce("change_transitions")
        self._order = generator(run.seed, Purpose.REPLAY)
        self._log: ReplayLog | None = None

    def sample(self, batch_size: int, gamma: float, n_step: int = 1, stretch: int = 1, beta: float = 0.0) -> Batch:
        """Return a batch of the buffer's transitions on the run's device; arguments as for `ReplayBuffer.sample`.

        Plugins may change the batch (hook `change_transitions`).
        """
        run = self._run
        batch = self.buffer.sample(
            self._order, batch_size, gamma, n_step=n_step, stretch=stretch, beta=beta, device=run.device
        )
        run.hooks.change_transitions(run, batch)
        return batch

    @property
    def disk_bytes(self) -> int:
        """The most bytes on disk: rows of `last` and `previous`, rows of `best`, and rows not pruned yet."""
        return 2 * self.buffer.nbytes + self.buffer.nbytes // 4

    def state(self) -> dict[str, Any]:
        """Write new rows to disk; return which rows belong to this state, and the state of the order."""
        return {
            "order": random_state(self._order),
            "replay": self._opened_log().commit(),
            "open": self.buffer.open_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, with the same rows.

        Raises:
            CheckpointError: rows on disk are missing or damaged.
            ValueError: they are not rows of this run.
            ConfigError: the state is of another selector.
        """
        load_random_state(self._order, state["order"])
        self.buffer.check_open_state(state["open"])
        self._opened_log().load(state["replay"])
        self.buffer.load_open_state(state["open"])  # behind the rows that are final
        if self.buffer.steps and not self.buffer.steps_of.ahead.any():
            raise ValueError("its replay data have no step")

    def prune(self) -> None:
        """Delete rows on disk that no checkpoint refers to."""
        self._opened_log().prune(self._run.saving.checkpoint_states())

    def _opened_log(self) -> ReplayLog:
        if self._log is None:
            self._log = ReplayLog(self._run.saving.replay_dir, self.buffer)
        return self._log
