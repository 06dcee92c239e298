"""Deep Q-learning from replay (Mnih et al. 2015), with the parts of Rainbow as options (Hessel et al., 1710.02298)."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from gymnasium.spaces import Dict, Discrete, MultiBinary, MultiDiscrete
from maze_offpolicy import ReplayCollector, ReplayMemory, Target, TargetMemory
from torch import Tensor, nn

from maze_core import POLICY, Algorithm, Batch, Loss, Purpose, hookimpl, torch_generator
from maze_dqn.config import DQNConfig, ReplayedConfig
from maze_dqn.exploration import epsilon_greedy
from maze_dqn.network import ValueNetwork, value_network
from maze_dqn.returns import build_returns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core import AlgorithmConfig, PluginConfig, Policy, Run
    from maze_dqn.actor_replay import ActorReplay

_PARAMETER_NOISE = 3
# Separates the noise on parameters from the other random numbers of acting.
_TARGET = "target"


class DQN(Algorithm[ValueNetwork]):
    """Deep Q-learning from replay, for discrete actions of every kind."""

    Config: ClassVar[type[AlgorithmConfig]] = DQNConfig
    config: ReplayedConfig
    needs_critic = False
    supports_agents = True
    supports_memory = True
    action_spaces = (Discrete, MultiDiscrete, MultiBinary, Dict)
    calls = ("compute_loss", *ReplayCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/value": "value", "loss/q": "q", "train/epsilon": "epsilon"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"hidden": [256, 256], "activation": "relu"}}

    @hookimpl(wrapper=True)
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: PluginConfig
    ) -> Generator[None, Policy, ValueNetwork]:
        """Replace the heads of the model's policy by values."""
        own = self.config
        noisy_std = own.noisy_std if own.noisy else None
        return value_network(
            (yield), build_returns(own), config, hidden=own.head_hidden, dueling=own.dueling, noisy_std=noisy_std
        )

    def setup(self, run: Run) -> None:
        """Build the collector with its exploration, and the target network."""
        policy = cast("ValueNetwork", run.policy)
        self._run, self._policy = run, policy
        self.target = Target(policy)
        self.target.module.normalizer = policy.normalizer  # its statistics belong to both networks
        self._collector = self.keep("collector", self.collector(run))
        noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _PARAMETER_NOISE, device=run.device)
        self.noise = self.keep("noise", noise)

    def collector(self, run: Run) -> ReplayCollector | ActorReplay:
        """Return what fills the replay; called once."""
        config: Any = self.config
        targets = {_TARGET: TargetMemory(POLICY, self.target.module)}
        return ReplayCollector(
            run,
            config.n_rollout_steps,
            config.num_envs,
            config.replay_buffer_size,
            epsilon_greedy(run, config, run.rows_of(config.num_envs)),
            initial_steps=config.initial_buffer_size,
            first_policy=config.initial_sampling_policy,
            priority_exponent=config.priority_exponent if config.prioritized else None,
            her_goals=config.her_goals,
            memory=ReplayMemory.of(self._policy, config.sequence_length, config.burn_in, targets),
        )

    def modules(self) -> dict[str, nn.Module]:
        """Return the target network."""
        return {_TARGET: self.target.module}

    def batches(self) -> Iterator[Batch]:
        """Step the environments, then yield batches from replay; priorities and target follow after each of them."""
        config, run, collector = self.config, self._run, self._collector
        run.record({"train/epsilon": config.epsilon})
        self._policy.resample(self.noise)
        collector.collect()
        for _ in range(config.num_batches_per_iter):
            batch = collector.sample(config.batch_size, config.gamma, config.n_step, beta=config.priority_beta)
            self._policy.resample(self.noise)
            self.target.module.resample(self.noise)
            yield batch
            if collector.replay.priorities is not None:
                errors = self.row_results["error"].cpu().numpy()
                collector.replay.priorities.update(batch.extra["slot"].cpu().numpy(), errors)
            if run.learner.steps % config.target_update_interval == 0:
                self.target.follow(config.tau)
        self._policy.quiet()  # evaluations act without noise

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: ValueNetwork, batch: Batch) -> Loss:
        """Return the loss of the actions taken, weighted where steps were drawn by their priorities."""
        chosen = policy.at(policy.atoms(batch.obs, batch.sequences), policy.actions.indices(batch.actions))
        rows, errors = policy.returns.loss(chosen, self.target_of(policy, batch))
        self.row_results = {"error": errors}
        weight = batch.extra.get("weight")
        loss = (rows if weight is None else weight * rows).mean()
        q = policy.returns.mean(chosen.detach()).mean()
        return Loss(loss, {"value": loss.detach(), "q": q, "error": errors.mean()})

    @torch.no_grad()
    def target_of(self, policy: ValueNetwork, batch: Batch) -> Tensor:
        """Return the target, [B, A]: the rewards, and the discounted atoms of the best of the next actions.

        The target network values that action. It also chooses it, unless `double` leaves this to the network that
        learns (van Hasselt et al., arXiv 1509.06461). The discount is 0 where the episode terminated.
        """
        network = self.target.module
        atoms = _next_atoms(network, batch, _TARGET)
        best = policy.best(_next_atoms(policy, batch, POLICY) if self.config.double else atoms, batch.next_obs)
        return policy.returns.target(network.at(atoms, best), batch.extra["reward"], batch.extra["discount"])


def _next_atoms(network: ValueNetwork, batch: Batch, name: str) -> Tensor:
    """Return the atoms of the observations that follow, [B, C, A]; `name`: of the network in memories."""
    sequences = batch.sequences
    if sequences is None:
        return network.atoms(batch.next_obs)
    return network.atoms(sequences.obs, sequences.beyond(name))[sequences.following]
