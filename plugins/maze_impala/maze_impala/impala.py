"""IMPALA: actors and a learner that do not wait for each other (Espeholt et al., arXiv 1802.01561)."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from maze_core.data.batch import Batch, Loss
from maze_core.data.returns import explained_variance, vtrace
from maze_core.envs.actors import actors_of
from maze_core.errors import RunError
from maze_core.models.parameters import state_arrays
from maze_core.plugins.hookspecs import hookimpl
from maze_core.training.actor_metrics import actor_metrics
from maze_core.training.algorithm import Algorithm
from maze_core.training.burn_in import CriticBurnIn
from maze_core.training.on_policy import actor_critic_loss
from maze_core.training.schedules import scheduled
from maze_impala.actor import Actor, Delivery
from maze_impala.config import IMPALAConfig
from maze_impala.trajectories import TrajectoryBatch, check_trajectories

if TYPE_CHECKING:
    from maze_core.models.policy import Policy
    from maze_core.training.run import Run


class IMPALA(Algorithm):
    """Importance weighted actor-learner architecture, for every action space.

    Rollouts are requested ahead of time and learned from in the order of the requests. At most one per actor and one
    per place in the queue are pending, so none is more than `config.max_staleness` updates old.
    """

    Config = IMPALAConfig
    config: IMPALAConfig
    needs_critic = True
    supports_memory = True
    supports_actors = True
    supports_agents = True
    columns: ClassVar[Mapping[str, str]] = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"normalize_observations": True, "log_std_init": -0.5}
    }

    def setup(self, run: Run) -> None:
        """Start the actors."""
        config = self.config
        self._run = run
        check_trajectories(config, run.policy)
        self._burn_in = CriticBurnIn(run, config.critic_burn_in_epochs)
        policy = copy.deepcopy(run.policy).cpu()
        actor = Actor(policy, run.env_builder("training"), run.seed, config.envs_per_actor, config.n_rollout_steps)
        self._actors = run.workers(actor, config.num_actors)
        self._trajectories = TrajectoryBatch(config)
        self._acting = actors_of(run.observation_space)
        self._asked = 0
        """Number of rollouts requested since the start of the run."""
        self._under_way: deque[int] = deque()
        """Jobs of the rollouts not learned from, in the order of the requests."""
        self._early: dict[int, Delivery] = {}
        """Rollouts that arrived before their turn."""

    def batches(self) -> Iterator[Batch]:
        """Share the parameters, request rollouts, and yield the next ones in order."""
        config, run = self.config, self._run
        run.learner.scale_lr(scheduled(config.lr_schedule, run.fraction_done))
        version = self._actors.share(state_arrays(run.policy))
        while len(self._under_way) < config.rollouts_under_way:
            self._under_way.append(self._actors.submit(self._asked))
            self._asked += 1
        for place in range(config.rollouts_per_batch):
            delivery = self._next()
            if self._acting is not None:
                run.record(actor_metrics(self._acting, run.action_space, delivery.rollout))
            run.hooks.change_rollout(run, delivery.rollout)
            self._trajectories.put(place, delivery)
            self._count(delivery, version - delivery.version)
        batch = self._trajectories.rows(run.policy, run.device)
        yield batch
        if run.policy.normalizer is not None and not self._burn_in.active:
            run.policy.normalizer.update(batch.obs, batch.extra["weight"])

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return V-trace policy gradient, the critic's squared error to the V-trace targets, and entropy bonus."""
        config, data = self.config, batch.extra
        distribution, value = self._burn_in.forward(policy, batch.obs, batch.sequences)
        log_prob = distribution.log_prob(batch.actions)
        log_rho = (log_prob - data["log_prob"]).detach()
        target, advantage = self._vtrace(log_rho, value.detach(), batch)
        weight = data["weight"] / data["weight"].sum().clamp(min=1)
        policy_loss = log_prob * -advantage
        critic_loss = (value - target).square()
        rho = log_rho.exp() @ weight
        return actor_critic_loss(
            config, self._run.epoch, policy_loss, critic_loss, distribution.entropy(), weight, rho=rho
        )

    def state(self) -> dict[str, Any]:
        """Return the states of the actors and the pending requests; only their number where actors are processes."""
        actors = self._actors.state()
        return {"asked": self._asked, "actors": actors, "under_way": list(self._under_way) if actors else []}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._asked = state["asked"]
        self._actors.load_state(state["actors"])
        self._under_way = deque(state["under_way"])

    def _next(self) -> Delivery:
        """Wait for the rollout whose turn it is, and return it."""
        job = self._under_way.popleft()
        while job not in self._early:
            result = self._actors.collect()
            if result is None:
                raise RunError("an actor lost a rollout")
            self._early[result.job] = result.value
        return self._early.pop(job)

    def _count(self, delivery: Delivery, staleness: int) -> None:
        """Update the run's counters. `staleness`: updates since the acting parameters."""
        run = self._run
        run.count_env_steps(int(delivery.rollout.valid.sum()))
        run.statistics.add(delivery.rollout.episodes)
        run.record({"train/staleness_mean": float(staleness)})

    def _vtrace(self, log_rho: torch.Tensor, value: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Return targets and advantages [T * B], constants. In NumPy: a GPU would wait at each step."""
        config, shape = self.config, (self.config.n_rollout_steps, -1)
        values = value.numpy(force=True).reshape(shape)
        data = {name: leaf.numpy(force=True).reshape(shape) for name, leaf in batch.extra.items()}
        following = np.concatenate([values[1:], data["bootstrap"][-1:]])
        following = np.where(data["continues"] > 0, following, data["bootstrap"])
        following[-1] = data["bootstrap"][-1]
        targets, advantages = vtrace(
            log_rho.numpy(force=True).reshape(shape),
            data["reward"],
            values,
            following,
            data["discount"],
            data["continues"],
            config.vtrace_clip_rho_threshold,
            config.vtrace_clip_pg_rho_threshold,
        )
        valid = data["weight"] > 0
        self._run.record({"train/explained_variance": explained_variance(values[valid], targets[valid])})
        target, advantage = (torch.from_numpy(a.reshape(-1)).to(value.device) for a in (targets, advantages))
        return target, advantage
