"""Conservative Q-learning from recorded trajectories, CQL(H) with SAC's actor (Kumar et al., arXiv 2006.04779)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from gymnasium.spaces import Box, Dict
from maze_offpolicy import JointActions, Target, bounded_sample, check_reparametrised, critics_of
from maze_recordings.recorded_steps import RecordedSteps, check_without_steps
from torch import Tensor, nn

from maze_core import Adam, Algorithm, Batch, Loss, Purpose, hookimpl, torch_generator
from maze_core.models.distributions import SquashedGaussian
from maze_offline.config import CQLConfig
from maze_offline.losses import log_integral, squared_errors

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Optimizer, Policy, Run, RunConfig, TensorTree

_SAMPLES = 2
# Separates its random numbers from others of the same purpose.
_LARGEST_ALPHA = 1e6


class Coefficient(nn.Module):
    """A positive number that is learnt as its logarithm."""

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(initial).log())

    def value(self) -> Tensor:
        """Return it, with its gradient, shape ()."""
        return self.log.exp().clamp(max=_LARGEST_ALPHA)


class CQL(Algorithm):
    """Conservative Q-learning, offline, for Box actions with finite bounds."""

    Config: ClassVar[type[AlgorithmConfig]] = CQLConfig
    config: CQLConfig
    needs_critic = False
    supports_agents = True
    action_spaces = (Box, Dict)
    calls = ("compute_loss",)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy", "loss/critic": "critic", "loss/gap": "gap", "loss/q": "q",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "distribution": "squashed_gaussian",
            "state_dependent_std": True,
            "hidden": [256, 256],
            "activation": "relu",
        },
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps."""
        check_without_steps(config)

    def setup(self, run: Run) -> None:
        """Load the data; build critics, their target and the coefficients."""
        config, policy = self.config, run.policy
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_reparametrised(policy, self.actions, config.name)
        self._steps = self.keep("steps", RecordedSteps(run, config.dataset, config.n_workers))
        self.critics = critics_of(run, self.actions, config)
        self.target = Target(self.critics)
        self._entropy = Coefficient(config.entropy_coef).to(run.device)
        learnt = config.lagrange_gap is not None
        self._alpha = Coefficient(config.alpha or 1.0).to(run.device) if learnt else None
        noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _SAMPLES, device=run.device)
        self.noise = self.keep("noise", noise)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics, their target, and the coefficients."""
        alpha = {} if self._alpha is None else {"alpha": self._alpha}
        return {"critics": self.critics, "critic_target": self.target.module, "entropy": self._entropy, **alpha}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return one Adam: policy and entropy coefficient at `lr`, critics and alpha at `critic_lr`."""
        config = self.config
        actor = [p for p in (*policy.parameters(), *self._entropy.parameters()) if p.requires_grad]
        critics = [*self.critics.parameters(), *(() if self._alpha is None else self._alpha.parameters())]
        critic_lr = config.lr if config.critic_lr is None else config.critic_lr
        return Adam([{"params": actor, "lr": config.lr}, {"params": critics, "lr": critic_lr}])

    def batches(self) -> Iterator[Batch]:
        """Yield a batch of recorded steps; the target follows after the update."""
        config = self.config
        yield self._steps.sample(config.batch_size, config.gamma)
        self.target.follow(config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the losses of critics, policy and coefficients in one scalar; each moves its own parameters only."""
        config, critics = self.config, self.critics
        features = critics.features(policy.normalized(batch.obs))
        with torch.no_grad():
            following, next_density = self._sample(policy, batch.next_obs, 1 + config.sampled_actions)
            next_features = self.target.module.features(policy.normalized(batch.next_obs))
            next_values = self.target.module.values(next_features, following[0]).squeeze(-1)
            target = torch.addcmul(batch.extra["reward"], batch.extra["discount"], next_values.amin(0))
        acted, density = self._sample(policy, batch.obs, 1 + config.sampled_actions)
        recorded = cast("Tensor", self.actions.canonical(batch.actions))  # every leaf is a Box
        values = critics.values(features, recorded).squeeze(-1)
        critic_loss = squared_errors(values, target)
        others = torch.cat((acted[1:], following[1:])).detach()
        gap = self._gap(features, others, torch.cat((density[1:], next_density[1:])).detach()) - values.mean(-1)

        value = critics.values(features.detach(), acted[0], frozen=True).squeeze(-1).amin(0)
        coefficient = self._entropy.value()
        policy_loss = (coefficient.detach() * density[0] - value).mean()
        surplus = -density[0].detach().mean() + config.target_entropy_multiplier * self.actions.box_size
        total = critic_loss + policy_loss + self._entropy.log * surplus + self._conservative(gap)
        metrics = {
            "policy": policy_loss, "critic": critic_loss, "gap": gap.mean(), "q": values.mean(),
            "entropy": -density[0].mean(), "entropy_coef": coefficient,
        }  # fmt: skip
        if self._alpha is not None:
            metrics["alpha"] = self._alpha.value()
        return Loss(total, {name: metric.detach() for name, metric in metrics.items()})

    def _conservative(self, gap: Tensor) -> Tensor:
        """Return the critics' conservative loss and alpha's, shape (), for the gaps of K critics, [K]."""
        if self._alpha is None or self.config.lagrange_gap is None:
            return self.config.alpha * gap.sum()
        alpha = self._alpha.value()
        return alpha.detach() * gap.sum() - alpha * (gap.detach() - self.config.lagrange_gap).sum()

    def _gap(self, features: Tensor, others: Tensor, density: Tensor) -> Tensor:
        """Return the mean log-integral of the exponential values over all actions, [K].

        Args:
            features: the critics' of B observations, [K or 1, B, F].
            others: sampled actions, [2N, B, d]; N random ones are added.
            density: their log-densities, [2N, B].
        """
        count, (rows, size) = self.config.sampled_actions, others.shape[1:]
        shape = (count, rows, size)
        evenly = 2 * torch.rand(shape, generator=self.noise, device=others.device) - 1
        actions = torch.cat((evenly, others))
        densities = torch.cat((density.new_full((count, rows), -size * math.log(2.0)), density))
        repeated = features.unsqueeze(1).expand(-1, len(actions), -1, -1).flatten(1, 2)
        values = self.critics.values(repeated, actions.flatten(0, 1)).squeeze(-1)
        return log_integral(values.reshape(len(values), *actions.shape[:2]), densities).mean(-1)

    def _sample(self, policy: Policy, obs: TensorTree, count: int) -> tuple[Tensor, Tensor]:
        """Return `count` sampled actions in [-1, 1] for each of B observations, and their log-densities there.

        Shapes [count, B, d] and [count, B].
        """
        parts: Any = policy.distribution(obs).parts
        rows = len(next(iter(obs.values())))
        drawn_at_once = policy.draw_noise((count * rows,), self.noise)  # rows, no steps: those may have the same noise
        noise = {key: leaf.reshape(count, rows, *leaf.shape[1:]) for key, leaf in drawn_at_once.items()}
        acted, densities = [], []
        for key, scale in self.actions.boxes.items():
            part = parts[key]
            if isinstance(part, SquashedGaussian):  # takes all at once
                sample = part.sample(noise[key])
                action, density = torch.tanh(sample), part.log_prob(sample) + scale.log_volume
            else:
                drawn = [bounded_sample(part, row, scale) for row in noise[key]]
                action, density = (torch.stack(each) for each in zip(*drawn, strict=True))
            acted.append(action)
            densities.append(density)
        return torch.cat(acted, -1), torch.stack(densities).sum(0)
