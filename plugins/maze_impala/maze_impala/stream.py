"""The stream of trajectories from the actors to the learner."""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, Any

from maze_onpolicy import GROUP, AgentGroups, RewardScale, state_arrays

from maze_core import Count, RunError, varies
from maze_core.base.saved_state import Each, OrLeftOut
from maze_core.collect.pools.workers import OrderedResults
from maze_core.envs.actors import actors_of
from maze_impala.actor import LOG_PROB, Actor
from maze_impala.trajectories import check_trajectories, trajectories

if TYPE_CHECKING:
    from maze_core import Batch, Rollout, Run
    from maze_impala.config import ActorsConfig


class TrajectoryStream:
    """Actors that collect while the learner learns, and the batches made of what they deliver.

    Rollouts are requested ahead of time and returned in the order of the requests. At most one per actor and one
    per place in the queue are pending, so none is more than `config.max_staleness` updates old.
    """

    def __init__(self, run: Run, config: ActorsConfig) -> None:
        check_trajectories(config, run.policy)
        run.hooks.announce("change_rollout")
        self._run, self._config = run, config
        policy = copy.deepcopy(run.policy).cpu()
        envs, total = config.envs_per_actor, config.num_actors * config.envs_per_actor
        actor = Actor(policy, run.env_builder("training"), run.seed, envs, config.n_rollout_steps, total)
        self._actors = run.workers(actor, config.num_actors)
        run.environments.deal(total)
        self._results = OrderedResults(self._actors)
        self._rollout: Rollout | None = None
        """The rollouts of a batch side by side, in arrays that every update reuses."""
        actors = actors_of(run.observation_space)
        self._groups = None if actors is None else AgentGroups(run, actors)
        self._asked = 0
        """Number of rollouts requested since the start of the run."""
        self._under_way: deque[int] = deque()
        """Jobs of the rollouts not learned from, in the order of the requests."""
        self._scale = RewardScale(config.gamma) if config.normalize_rewards else None

    def next_batch(self) -> Batch:
        """Share the parameters, request rollouts, and return the next ones as a batch of `trajectories`."""
        config, run = self._config, self._run
        version = self._actors.share(state_arrays(run.policy))
        while len(self._under_way) < config.rollouts_under_way:
            plan = run.environments.plan
            self._under_way.append(self._actors.submit((self._asked, plan and [dict(each) for each in plan.rows])))
            self._asked += 1
        for place in range(config.rollouts_per_batch):
            result = self._results.of(self._under_way.popleft())
            rollout: Rollout = result.value
            if self._groups is not None:
                run.record(self._groups.metrics(rollout))
                self._groups.name(rollout)
            self._let_change(rollout)
            if self._scale is not None:
                self._scale(rollout, result.worker)
            whole = self._put(place, rollout)
            self._count(rollout, version - rollout.version)
        return trajectories(whole, config, run.policy, run.device)

    def _put(self, place: int, part: Rollout) -> Rollout:
        """Put a rollout in its place among those of the batch, and return these; place 0 begins the next batch."""
        columns = part.rewards.shape[1]  # more than environments where several agents act
        if self._rollout is None:
            self._rollout = part.wide(self._config.rollouts_per_batch * columns)
        if place == 0:
            self._rollout.clear()
        self._rollout.put(place * columns, part)
        return self._rollout

    def _let_change(self, rollout: Rollout) -> None:
        """Let plugins change a rollout. Raise RunError if one adds values, since the batches would not have them."""
        run = self._run
        run.hooks.change_rollout(run, rollout)
        if added := sorted(rollout.extra.keys() - {GROUP, LOG_PROB}):
            raise RunError(
                f"a plugin adds {', '.join(map(repr, added))} to rollouts (hook change_rollout), but the batches of "
                f"{run.config.algorithm.name} have no such values\nNext: maze train ppo, or a2c."
            )

    def state(self) -> dict[str, Any]:
        """Return the states of the actors and the pending requests; only their number where actors are processes."""
        actors = self._actors.state()
        state = {
            "asked": varies(self._asked, Count()),
            "actors": actors,
            "under_way": varies(list(self._under_way) if actors else [], Each(Count())),
        }
        if self._scale is None:
            return state
        scale = self._scale.state(self._run.rows_of(self._config.envs_per_actor))
        return {**state, "reward_scale": varies(scale, OrLeftOut(scale))}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._asked = state["asked"]
        self._actors.load_state(state["actors"])
        self._under_way = deque(state["under_way"])
        if sorted(self._under_way) != sorted(job[0] for job in state["actors"].get("jobs", [])):
            raise ValueError("its requests are not those of its actors")
        if self._scale is not None and "reward_scale" in state:  # else it is a new setting of a resumed run
            self._scale.load_state(state["reward_scale"], bool(state["actors"]))

    def _count(self, rollout: Rollout, staleness: int) -> None:
        """Update the run's counters. `staleness`: updates since the acting parameters."""
        run = self._run
        run.count_env_steps(int(rollout.valid.sum()))
        run.statistics.add(rollout.episodes)
        run.record({"train/staleness_mean": float(staleness)})
