"""Value decomposition networks (Sunehag et al., arXiv 1706.05296)."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium.spaces import Dict, Discrete
from maze_offpolicy import EpsilonGreedy, Joint, ReplayCollector, Target
from torch import Tensor, nn

from maze_core import Algorithm, Batch, Loss, Policy, Purpose, generator, hookimpl
from maze_marl.config import VDNConfig
from maze_marl.values import values_of

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Run, TensorTree

_EXPLORATION = 2
# Separates the random actions from the other random numbers of acting.


class VDN(Algorithm):
    """Q-learning of a team from replay, for agents that act at the same time, each with Discrete actions."""

    Config: ClassVar[type[AlgorithmConfig]] = VDNConfig
    config: VDNConfig
    needs_critic = False
    supports_agents = True
    supports_actors = True
    action_spaces = (Discrete, Dict)
    calls = ("compute_loss", *ReplayCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/value": "value", "loss/q": "q", "train/epsilon": "epsilon"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"hidden": [128, 128], "activation": "relu"}}

    @hookimpl(wrapper=True)
    def build_policy(self) -> Generator[None, Policy, Policy]:
        """Say of the model's policy that its logits are values."""
        policy = yield
        policy.logits_are_values = True
        return policy

    def setup_loss(self, run: Run) -> None:
        """Build the target network."""
        self.agents = run.rows_of(1)
        self.target = Target(run.policy)
        followers = [each for each in self.target.module.modules() if isinstance(each, Policy)]
        leaders = [each for each in run.policy.modules() if isinstance(each, Policy)]
        for follower, leader in zip(followers, leaders, strict=True):
            follower.normalizer = leader.normalizer  # its statistics belong to both networks

    def setup(self, run: Run) -> None:
        """Build the collector with its exploration, whose batches are joint steps."""
        config = self.config
        self._run = run
        rows = run.rows_of(config.num_envs)
        exploration = EpsilonGreedy(
            run.observation_space,
            run.action_space,
            [generator(run.seed, Purpose.POLICY_NOISE, _EXPLORATION, row) for row in range(rows)],
            lambda: config.epsilon,
            lambda steps: config.epsilon,
        )
        collector = ReplayCollector(
            run,
            config.n_rollout_steps,
            config.num_envs,
            config.replay_buffer_size,
            exploration,
            initial_steps=config.initial_buffer_size,
            first_policy=config.initial_sampling_policy,
            selector=Joint(),
        )
        self._collector = self.keep("collector", collector)

    def modules(self) -> dict[str, nn.Module]:
        """Return the target network."""
        return {"target": self.target.module}

    def batches(self) -> Iterator[Batch]:
        """Step the environments, then yield joint steps from replay; the targets follow every so often."""
        config, run = self.config, self._run
        run.record({"train/epsilon": config.epsilon})
        self._collector.collect()
        for _ in range(config.num_batches_per_iter):
            yield self._collector.sample(config.batch_size, config.gamma)
            if run.learner.steps % config.target_update_interval == 0:
                self.follow()

    def follow(self) -> None:
        """Move the targets towards what learns."""
        self.target.follow(self.config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the squared distance of the team's value from its target, of the agents that took part."""
        chosen = self.mix(values_of(policy, batch.obs, batch.actions), batch.obs, batch.extra["present"])
        loss = (chosen - self._target_of(policy, batch)).square().mean()
        return Loss(loss, {"value": loss.detach(), "q": chosen.detach().mean()})

    @torch.no_grad()
    def _target_of(self, policy: Policy, batch: Batch) -> Tensor:
        """Return what the team is paid, and the discounted value of its best next actions, [S].

        Each agent chooses its own best action: the team's value rises with that of each of them. The part of an agent
        whose discount is 0 has ended. All others have the same, as they act at the same time.
        """
        network = self.target.module
        best = (policy if self.config.double else network).distribution(batch.next_obs).mode()
        values = values_of(network, batch.next_obs, best)
        discount = batch.extra["discount"]
        following = self.mix(values, batch.next_obs, discount > 0, of_target=True)
        reward = self.config.reward_scale * batch.extra["reward"].reshape(-1, self.agents).sum(-1)
        return reward + discount.reshape(-1, self.agents).amax(-1) * following

    def mix(self, values: Tensor, obs: TensorTree, present: Tensor, *, of_target: bool = False) -> Tensor:
        """Return the value of S joint steps, [S]: the sum over the agents that take part.

        Args:
            values: [S * A], one for each agent's action.
            obs: leaves [S * A, …], what they observe.
            present: [S * A] bool, which agents take part.
            of_target: with the target networks.
        """
        return torch.where(present, values, 0.0).reshape(-1, self.agents).sum(-1)
