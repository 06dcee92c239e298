"""The replay of Ape-X: actors fill it on the runner's workers, and the learner does not wait for them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from maze_offpolicy import ReplayBuffer, StoredReplay, check_replay_sizes
from maze_onpolicy import Assembler, acting_arrays, learn_observations

from maze_core import Collector, Count, take_rows, varies
from maze_core.plugins.config.params import setting
from maze_dqn.actor import ReplayActor

if TYPE_CHECKING:
    from maze_core import Batch, JobResult, Rollout, Run
    from maze_dqn.actor import Played
    from maze_dqn.config import ApexConfig
    from maze_dqn.network import ValueNetwork

_AHEAD = 2
"""Rollouts requested of each actor ahead of time, so that none of them waits for the learner."""
_PATIENCE = 0.5
"""Seconds between two looks at whether the run was interrupted."""


class ActorReplay(Collector):
    """Rollouts that actors collect while the learner learns, in one replay buffer.

    A call of `collect` takes one rollout if one has arrived. So the learner takes at least as many batches for each
    step as `num_batches_per_iter` says, and `max_idle` bounds how many more. On the runner `dev` the actors take turns:
    each call runs one of them.

    Args:
        run: provides workers, policy and counters.
        config: sizes.

    Raises:
        ConfigError: sizes contradict each other, or the buffer does not fit into memory.
    """

    def __init__(self, run: Run, config: ApexConfig) -> None:
        rows = config.num_actors * config.envs_per_actor
        check_replay_sizes(run.config, config.replay_buffer_size, rows, config.initial_buffer_size)
        self._run, self._config = run, config
        run.explores = True
        where = setting(run.config.algorithm, "replay_buffer_size")
        exponent = config.priority_exponent if config.prioritized else None
        spaces = run.observation_space, run.action_space
        self.replay = ReplayBuffer(
            *spaces,
            config.replay_buffer_size,
            where,
            exponent,
            agent_rows=rows,
            info_columns=run.algorithm.info_columns,
        )
        self._stored = StoredReplay(run, self.replay)
        policy = cast("ValueNetwork", copy.deepcopy(run.policy).cpu())
        # Without its class, which workers do not need: one of the program's own could not be sent to them.
        actor = ReplayActor(policy, run.env_builder("training"), run.seed, config.bound_to(None))
        self._actors = run.workers(actor, config.num_actors)
        run.environments.deal(rows)
        self._asked = self._taken = self._idle = 0

    def warm_up(self) -> bool:
        """Let the actors fill the buffer until learning begins; return False if the run was interrupted before."""
        while self.replay.steps < self._config.initial_buffer_size or not self.replay.ready:
            if self._run.interrupted or self._run.steps_done:
                return False
            self._request()
            self._take(self._actors.collect(_PATIENCE))
            self._run.keep_state()
        return True

    def collect(self) -> None:
        """Publish the parameters, and take a rollout if one has arrived, or if learning from old steps goes too far."""
        self._request()
        result = self._actors.collect(0.0)
        while result is None and self._idle >= self._config.max_idle and not self._run.interrupted:
            result = self._actors.collect(_PATIENCE)
        self._take(result)

    def sample(self, batch_size: int, gamma: float, n_step: int = 1, beta: float = 0.0) -> Batch:
        """Return a batch of the buffer's transitions; arguments as for `ReplayBuffer.sample`."""
        return self._stored.sample(batch_size, gamma, n_step, beta=beta)

    def _request(self) -> None:
        self._actors.share(acting_arrays(self._run.policy))
        while self._asked - self._taken < _AHEAD * self._config.num_actors:
            plan = self._run.environments.plan
            rows = plan and [dict(each) for each in plan.rows]
            self._actors.submit((self._asked, self._config.epsilon, rows))
            self._asked += 1

    def _take(self, result: JobResult | None) -> None:
        """Add a rollout to the replay, and count it."""
        self._idle = self._idle + 1 if result is None else 0
        if result is None:
            return
        self._taken += 1
        played: Played = result.value
        first = result.worker * self._config.envs_per_actor
        if played.first:
            self.replay.forget(np.arange(first, first + self._config.envs_per_actor))
        learn_observations(self._run.policy.normalizer, played.rollout, self._run.device)
        self._add(played.rollout, first)
        self._run.count_env_steps(int(played.rollout.valid.sum()))
        self._run.statistics.add(played.rollout.episodes)

    def _add(self, rollout: Rollout, first: int) -> None:
        """Write the steps of a rollout, whose environments are rows from `first` on."""
        assembler, obs = Assembler(self._config.envs_per_actor), take_rows(rollout.obs, 0)
        for actions, result, following in rollout.steps():
            done = assembler.add(obs, actions, result, following)
            self.replay.add(replace(done, rows=done.rows + first))
            obs = following

    # Saving

    @property
    def disk_bytes(self) -> int:
        """The most bytes that the rows take on disk."""
        return self._stored.disk_bytes

    def state(self) -> dict[str, Any]:
        """Return the rows, and the states of the actors; those of processes begin new episodes."""
        counts = {"asked": varies(self._asked, Count()), "idle": varies(self._idle, Count())}
        return {**self._stored.state(), **counts, "actors": self._actors.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`. Errors as for `StoredReplay.load_state`."""
        self._stored.load_state(state)
        self._asked, self._idle = state["asked"], state["idle"]
        self._taken = self._asked - len(state["actors"].get("jobs", []))  # what was under way in processes is lost
        self._actors.load_state(state["actors"])

    def prune(self) -> None:
        """Delete rows on disk that no checkpoint refers to."""
        self._stored.prune()
