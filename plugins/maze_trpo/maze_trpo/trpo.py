"""Trust region policy optimisation (Schulman et al., arXiv 1502.05477): natural gradient, then a line search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from maze_onpolicy import (
    RolloutCollector,
    advantage_rows,
    check_divergence,
    cost_modules,
    normalized,
    policy_parameters,
    rollout_costs,
    twice_differentiable,
)
from torch import Tensor, nn

from maze_core import (
    Adam,
    Algorithm,
    Batch,
    ConfigError,
    Loss,
    Optimizer,
    Policy,
    Purpose,
    Run,
    distribution_of,
    generator,
    hookimpl,
)
from maze_core.data.batch import OwnStep
from maze_core.models.memory import value_of
from maze_trpo.config import TRPOConfig


class TRPO(Algorithm):
    """Trust region policy optimisation, on-policy, for every action space."""

    Config = TRPOConfig
    config: TRPOConfig
    needs_critic = True
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_tensors = True
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/gain": "gain", "loss/kl": "kl", "loss/value": "value"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"critic": "separate", "log_std_init": -0.25}}

    def setup_loss(self, run: Run) -> None:
        """Build the critics of costs."""
        self._costs = rollout_costs(run)
        self._cost_loss = None if self._costs is None else self._costs.loss

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics of costs, if the run has constraints."""
        return cost_modules(self._costs)

    def setup(self, run: Run) -> None:
        """Build the collector."""
        config = self.config
        self._run = run
        check_divergence(run.policy, config.name)
        self._deciding = policy_parameters(run.policy).deciding
        self._collector = self.keep("collector", RolloutCollector.of(run, config))
        self._order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))
        if others := [each.name for each in run.hooks.implementers("compute_loss") if each.kind != "algorithm"]:
            run.notes.append(
                f"{', '.join(others)}: trpo's policy takes steps of its own, so only the critic's loss changes"
            )

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return the optimizer of the critic alone.

        Raises:
            ConfigError: the critic's steps would move the policy, too.
        """
        parts = policy_parameters(policy)
        if parts.shared:
            problem = f"the critic of {self.config.name} has layers of the policy, which its steps would move too far"
            raise ConfigError(problem, "model.critic", "Next: --set model.critic=separate")
        costs = [] if self._costs is None else list(self._costs.critics.parameters())
        return Adam([{"params": [*parts.critic, *costs], "name": "critic"}], lr=self.config.lr)

    def batches(self) -> Iterator[Batch | OwnStep]:
        """Collect a rollout; yield the step of the policy, then minibatches for the critic."""
        config, run = self.config, self._run
        rollout = self._collector.collect()
        rows, metrics = advantage_rows(
            run.policy,
            rollout,
            config.gamma,
            config.gae_lambda,
            run.device,
            config.sequence_length,
            log_probs=True,
            costs=self._costs,
        )
        run.record(metrics)
        if len(rows):  # a rollout may contain filler rows only
            yield OwnStep(lambda: self._step(rows), self._deciding)
            for _ in range(config.n_critic_epochs):
                yield from replace(rows, group="critic").minibatches(config.batch_size, self._order)
        self._collector.update_normalizer()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the squared error of the critic, and those of critics of costs."""
        error = (value_of(policy, batch.obs, batch.sequences) - batch.extra["target"]).square().mean()
        loss = Loss(error, {"value": error.detach()})
        return loss if self._cost_loss is None else self._cost_loss.added_to(loss, policy, batch)

    def _step(self, rows: Batch) -> dict[str, Tensor]:
        """Move the policy; return its gain, its divergence from the old one and the share of the step that was taken.

        The gain is the expected advantage of the new policy's actions over the old one's. All are 0 where the line
        search gives up.
        """
        config, policy, parameters = self.config, self._run.policy, self._deciding
        advantage = rows.extra["advantage"]
        if config.normalize_advantages:
            advantage = normalized(advantage, rows.extra.get("group"))
        with torch.no_grad():
            old = distribution_of(policy, rows.obs, rows.sequences).snapshot()

        def gain_and_kl() -> tuple[Tensor, Tensor]:
            new = distribution_of(policy, rows.obs, rows.sequences)
            ratio = (new.log_prob(rows.actions) - rows.extra["log_prob"]).exp()
            return (ratio * advantage).mean(), old.kl(new).mean()

        with twice_differentiable(rows.sequences):
            before, kl = gain_and_kl()
        slope = flat_gradient(before, parameters)
        kl_slope = flat_gradient(kl, parameters, create_graph=True)

        def fisher(vector: Tensor) -> Tensor:
            return flat_gradient(kl_slope @ vector, parameters) + config.damping * vector

        step = natural_step(fisher, slope, config.max_kl, config.cg_iterations)
        found = line_search(gain_and_kl, before.detach(), parameters, step, config)
        return dict(zip(("gain", "kl", "step"), found, strict=True))


def natural_step(fisher: Callable[[Tensor], Tensor], slope: Tensor, max_kl: float, iterations: int) -> Tensor:
    """Return the step along the natural gradient whose divergence is `max_kl` to second order, [n] (appendix C)."""
    direction = conjugate_gradient(fisher, slope, iterations)
    curvature = direction @ fisher(direction)
    return direction * (2 * max_kl / curvature.clamp(min=1e-12)).sqrt()


def conjugate_gradient(matrix: Callable[[Tensor], Tensor], target: Tensor, iterations: int) -> Tensor:
    """Return x with matrix(x) near `target`, [n], for a positive definite matrix (Hestenes and Stiefel 1952)."""
    solution, residual, direction = torch.zeros_like(target), target, target
    size = residual @ residual
    for _ in range(iterations):
        if size < 1e-10:
            break
        product = matrix(direction)
        length = size / (direction @ product)
        solution, residual = solution + length * direction, residual - length * product
        size, before = residual @ residual, size
        direction = residual + size / before * direction
    return solution


@torch.no_grad()
def line_search(
    gain_and_kl: Callable[[], tuple[Tensor, Tensor]],
    before: Tensor,
    parameters: Sequence[Tensor],
    step: Tensor,
    config: TRPOConfig,
) -> tuple[Tensor, Tensor, Tensor]:
    """Move parameters by the first of ever shorter steps that raises the gain above `before` and respects `max_kl`.

    Returns:
        What the gain rose by, the divergence, and the share of `step` that was taken; zeros, and parameters as they
        were, where no step does.
    """
    start = torch.cat([parameter.flatten() for parameter in parameters])
    for tried in range(config.search_steps):
        share = config.backtrack**tried
        assign(parameters, start + share * step)
        gain, kl = gain_and_kl()
        if gain > before and kl <= config.max_kl:
            return gain - before, kl, kl.new_tensor(share)
    assign(parameters, start)
    return before.new_zeros(()), before.new_zeros(()), before.new_zeros(())


def flat_gradient(value: Tensor, parameters: Sequence[Tensor], *, create_graph: bool = False) -> Tensor:
    """Return the gradient as one vector [n]; parameters that the value does not depend on have zeros."""
    parts = torch.autograd.grad(
        value, parameters, retain_graph=True, create_graph=create_graph, allow_unused=True, materialize_grads=True
    )
    return torch.cat([part.flatten() for part in parts])


def assign(parameters: Sequence[Tensor], values: Tensor) -> None:
    """Write a vector [n] into parameters, in place: other parts of a run look at the same memory."""
    for parameter, part in zip(parameters, torch.split(values, [each.numel() for each in parameters]), strict=True):
        parameter.copy_(part.view_as(parameter))
