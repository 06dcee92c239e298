"""The learner: loss, backward pass, gradient clipping and optimizer step, the same for every algorithm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd import Variable

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.saved_state import Count, Entries, Number, varies
from maze_core.learn.gradients import clip_factor, is_written_out
from maze_core.learn.optimizers import Adam, GroupedOptimizer, saved_optimizer, settings_of
from maze_core.learn.scheduled import Rate

if TYPE_CHECKING:
    from maze_core.data.batch import Batch, Loss, OwnStep
    from maze_core.learn.optimizers import Optimizer
    from maze_core.learn.taken_over import FurtherLearners

_FLUSH_AFTER = 50
# Steps whose metrics are kept as tensors. Among the large tensors of each step more of these small ones would keep the
# allocator from using its memory again: with 1,000 a run of TD3 took 620 MiB, with 50 it takes 300.
WATCH = "watch/loss and gradients"
"""Where `take_loss` puts what is not finite if the loss or a gradient is not."""


def plugins_optimizer(networks: Iterable[tuple[nn.Module, float | None]], lr: float) -> Adam | None:
    """Return Adam for networks with rates of their own, else `lr` as it is scheduled; None if no parameter learns."""
    groups: list[dict[str, Any]] = [
        {"params": [p for p in network.parameters() if p.requires_grad], "lr": own or lr, "scheduled": own is None}
        for network, own in networks
    ]
    groups = [group for group in groups if group["params"]]
    return Adam(groups) if groups else None


class Learner:
    """Takes optimizer steps and averages the loss metrics.

    A loss or gradient that is not finite raises RunError naming it: before the step on a CPU, in `check` on a GPU,
    where an earlier look would stall the device.
    """

    def __init__(
        self,
        policy: nn.Module,
        modules: dict[str, nn.Module],
        optimizer: Optimizer,
        max_grad_norm: float,
        plugins_optimizer: Optimizer | None = None,
    ) -> None:
        if isinstance(optimizer, GroupedOptimizer):
            optimizer.follow_parameters()
        self.optimizer = optimizer
        self.plugins_optimizer = plugins_optimizer
        """The optimizer of networks that plugins train beside the policy; it steps with every batch."""
        self.others: FurtherLearners | None = None
        """The further learners of the run; None: this process learns alone."""
        self.steps = 0
        """Steps since the start of the run, of the optimizer and of the algorithm itself."""
        self.set_without_optimizer: set[int] = set()
        """The ids of the parameters that the algorithm has set itself."""
        self._policy, self._modules = policy, modules
        self.max_grad_norm = max_grad_norm
        """The global norm to which gradients are clipped; 0: no clipping."""
        self._groups = {group.get("name", ""): list(group["params"]) for group in optimizer.param_groups}
        self._of_plugins = _parameters_in(plugins_optimizer)
        self.parameters = _parameters_in(optimizer) + self._of_plugins
        """The parameters that learn, in the order of the optimizers' groups."""
        optimizers = {"optimizer": optimizer, "plugins_optimizer": plugins_optimizer}
        self._optimizers = {name: each for name, each in optimizers.items() if each is not None}
        self._base_lrs = {name: [group["lr"] for group in each.param_groups] for name, each in self._optimizers.items()}
        self._configured = {name: settings_of(each) for name, each in self._optimizers.items()}
        learning, found = {id(p) for p in self.parameters}, self._found().items()
        self._places = {number: place for number, place in found if number in learning}
        self._on_cpu = all(p.device.type == "cpu" for p in self.parameters)
        self._unchecked: list[Tensor] = []
        self._pending: list[dict[str, Tensor]] = []
        self._sums: dict[str, tuple[float, int]] = {}

    def check_networks(self) -> None:
        """Raise ConfigError if a network has lost a parameter that learns, or an optimizer ignores a setting."""
        for optimizer in self._optimizers.values():
            if isinstance(optimizer, GroupedOptimizer):
                optimizer.check_settings()
        lost = self._places.keys() - self._found().keys()
        if lost:
            owner, name = next(place for number, place in self._places.items() if number in lost)
            raise ConfigError(
                f"{name} of {owner} was replaced after the optimizer was built, so what is there now would not learn",
                "model",
                "Replace it in a wrapper of the hook build_policy."
                if owner == "policy"
                else "Replace it where it is built, or change its values in place.",
            )

    def _found(self) -> dict[int, tuple[str, str]]:
        """Return the first network that has a parameter and its name there, by the id of the parameter."""
        found: dict[int, tuple[str, str]] = {}
        for owner, name, parameter in self._named():
            found.setdefault(id(parameter), (owner, name))
        return found

    def _named(self) -> Iterator[tuple[str, str, Tensor]]:
        """Yield each parameter with the names of its network and its own."""
        for owner, network in {"policy": self._policy, **self._modules}.items():
            for name, parameter in network.named_parameters():
                yield owner, name, parameter

    def set_rates(self, factor: float | None, config: Any) -> None:
        """Set every learning rate to `factor` times the configured one; None: leave them.

        A plugin's own stay in any case, and those with schedules are what `config` says.
        """
        for name, optimizer in self._optimizers.items():
            for group, lr in zip(optimizer.param_groups, self._base_lrs[name], strict=True):
                if group.get("scheduled", True) and (factor is not None or isinstance(lr, Rate)):
                    group["lr"] = getattr(config, lr.parameter) if isinstance(lr, Rate) else lr * factor

    def share_of(self, batch: Batch) -> Batch:
        """Return the rows of a batch that this process learns from: all, unless others get theirs.

        Raises:
            RunError: another learner was lost, or the batch names a group that does not exist.
        """
        if self.others is None:
            return batch
        numbers = None if batch.group is None else self._numbers(self.parameters_of(batch.group))
        return self.others.deal(batch, numbers)

    def step(self, loss: Loss, group: str | None = None, objective: str = "") -> None:
        """Take one optimizer step on the loss of `share_of(batch)`.

        Args:
            loss: of this process's share.
            group: name of the optimizer's parameter group that learns; the gradients of all others stay None. None:
                all groups learn.
            objective: what the batch calls its objective, for messages.

        Raises:
            RunError: the loss reaches no parameter that learns, loss or gradients are not finite, there is no such
                group, or another learner was lost.
        """
        loss, gradients, norm = self.differentiated(loss, group, objective)
        # Before the step, so that a run that ends here keeps finite parameters.
        self.check_finite(loss.total.detach(), norm, loss.metrics, group)
        # On a CPU a look at the norm is cheaper than a product with 1; on a GPU it would wait for the device.
        if not (self._on_cpu and norm.item() < self.max_grad_norm):
            self.clip(gradients, norm)
        self.optimize()

    def check_finite(self, total: Tensor, norm: Tensor, metrics: dict[str, Tensor], group: str | None) -> None:
        """Keep the scalars of a step, and look whether loss and gradients are finite.

        Args:
            total: the loss, shape ().
            norm: of all gradients together, shape ().
            metrics: the scalars of the loss.
            group: as for `step`.

        Raises:
            RunError: as for `step`.
        """
        self._keep({**metrics, norm_of(group): norm})
        watch = total + norm
        if not self._on_cpu:
            self._unchecked.append(watch)
        elif not math.isfinite(watch.item()):
            raise RunError(f"the loss or a gradient is not finite in step {self.steps + 1}: {self._culprit()}")

    def clip(self, gradients: list[Tensor], norm: Tensor) -> None:
        """Scale the gradients in place as configured."""
        if self.max_grad_norm > 0:
            torch._foreach_mul_(gradients, clip_factor(norm, self.max_grad_norm))

    def optimize(self) -> None:
        """Take the rest of a step, with the gradients that the parameters have."""
        self.optimizer.step()
        if self.plugins_optimizer is not None:
            self.plugins_optimizer.step()
        self.steps += 1

    def take_loss(self, loss: Loss, group: str | None, objective: str) -> dict[str, Tensor]:
        """Take a step that can be recorded: no value is read, and nothing counted. Return its scalars for `count`."""
        loss, gradients, norm = self.differentiated(loss, group, objective)
        self.clip(gradients, norm)
        self.optimizer.step()
        return {**loss.metrics, norm_of(group): norm, WATCH: loss.total.detach() + norm}

    def count(self, scalars: dict[str, Tensor]) -> None:
        """Count a step that `take_loss` took, or a repetition of it."""
        self._unchecked.append(scalars.pop(WATCH))
        self._keep(scalars)
        self.steps += 1

    def differentiated(self, loss: Loss, group: str | None, objective: str) -> tuple[Loss, list[Tensor], Tensor]:
        """Return the loss of all learners, the gradients of the parameters that learn, and their norm."""
        parameters = self.parameters if group is None else self.parameters_of(group)
        self._forget_gradients()
        backward(loss.total, None if group is None else parameters)
        if self.others is not None:
            loss = self.others.combined(loss)
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            raise RunError(_unreached(group, objective))
        # One copy and one reduction take half the time of a norm per tensor for small networks.
        return loss, gradients, torch._C._nn.flatten_dense_tensors(gradients).norm()

    def take(self, own: OwnStep) -> None:
        """Let an algorithm set parameters itself, and count that as a step.

        Raises:
            RunError: there are several learners, or a parameter is not finite after it.
        """
        if self.others is not None:
            raise RunError(
                "a step that the algorithm takes itself is taken by one learner alone\nNext: --set learners=1; the "
                "algorithm must not declare `supports_learners`."
            )
        self._forget_gradients()
        self._keep({name: value.detach() for name, value in own.take().items()})
        self._forget_gradients()
        self.set_without_optimizer |= {id(parameter) for parameter in own.parameters}
        # A sum is finite where all its numbers are: one look instead of one for each tensor.
        watch = torch.stack([parameter.detach().double().sum() for parameter in own.parameters]).sum()
        if not self._on_cpu:
            self._unchecked.append(watch.float())
        elif not math.isfinite(watch.item()):
            raise RunError(f"parameters are not finite after the algorithm's own step {self.steps + 1}")
        self.steps += 1

    def set_gradients(self, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Give these parameters, which learn, their gradients, and all others none."""
        if len(parameters) < len(self.parameters):
            self._forget_gradients()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient

    def _forget_gradients(self) -> None:
        # None, not zeros: what a loss does not reach stays as it is, and its moments, too.
        for parameter in self.parameters:
            parameter.grad = None

    def check(self) -> None:
        """Look at the losses and gradients of the last steps on a GPU. Call it after each update.

        Raises:
            RunError: one of them is not finite.
        """
        if self._unchecked and not bool(torch.stack(self._unchecked).isfinite().all()):
            raise RunError(f"a loss or gradient is not finite by step {self.steps}: {self._culprit()}")
        self._unchecked.clear()

    def parameters_of(self, group: str | None) -> list[Tensor]:
        """Return the parameters that learn in steps of a group; None: all of them.

        Raises:
            RunError: there is no such group.
        """
        if group is None:
            return self.parameters
        if group not in self._groups:
            known = ", ".join(repr(name) for name in self._groups if name) or "no named group"
            raise RunError(f"a batch names the parameter group {group!r}, but the optimizer has {known}")
        return self._groups[group] + self._of_plugins

    def _numbers(self, parameters: list[Tensor]) -> list[int]:
        places = {parameter: number for number, parameter in enumerate(self.parameters)}
        return [places[parameter] for parameter in parameters]

    def _culprit(self) -> str:
        """Return what is not finite: parts of the loss, else parameters with such gradients."""
        parts = [f"loss/{k}" for k, v in self._pending[-1].items() if not bool(v.isfinite().all())]
        gradients = [
            f"gradient of {owner}.{name}"
            for owner, name, p in self._named()
            if p.grad is not None and not bool(p.grad.isfinite().all())
        ]
        return ", ".join([*parts, *gradients[:3]]) or "the total loss"

    def _keep(self, metrics: dict[str, Tensor]) -> None:
        if len(self._pending) >= _FLUSH_AFTER:
            self._flush()
        self._pending.append(metrics)

    def _flush(self) -> None:
        """Add pending tensors to the running sums: the only place where metrics wait for the device."""
        by_name: dict[str, list[Tensor]] = {}
        for metrics in self._pending:
            for name, value in metrics.items():
                by_name.setdefault(name, []).append(value)
        for name, values in by_name.items():
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + torch.stack(values).double().sum().item(), count + len(values))
        self._pending.clear()

    def epoch_metrics(self) -> dict[str, float]:
        """Return means over the steps since the last call, as `loss/NAME`."""
        self._flush()
        means = {f"loss/{name}": total / count for name, (total, count) in self._sums.items()}
        self._sums.clear()
        return means

    def state(self) -> dict[str, Any]:
        """Return the optimizer's state, the number of steps and the metrics of an unfinished epoch."""
        self._flush()
        beside = None if self.plugins_optimizer is None else saved_optimizer(self.plugins_optimizer)
        return {
            "optimizer": saved_optimizer(self.optimizer),
            "plugins_optimizer": beside,
            "configured": varies(self._configured, {name: [{}] * len(each) for name, each in self._configured.items()}),
            "steps": varies(self.steps, Count()),
            "sums": varies({name: list(pair) for name, pair in self._sums.items()}, Entries([Number(), Count(1)])),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; settings of optimizers that are configured otherwise by now stay new."""
        from maze_core.learn.restored_optimizers import load_settings, restore

        for name, optimizer in self._optimizers.items():
            restore(optimizer, state[name])
            load_settings(optimizer, state["configured"][name], self._configured[name])
        self.steps = state["steps"]
        self._sums = {name: (total, n) for name, (total, n) in state["sums"].items()}


def norm_of(group: str | None) -> str:
    """Return the name of the metric with the norm of a group's gradients; None: of all groups'."""
    return "grad_norm" if group is None else f"{group}_grad_norm"


def _unreached(group: str | None, objective: str) -> str:
    """Return the message about a loss without any gradient."""
    loss = f"the loss of the objective {objective!r}" if objective else "the loss"
    learns = "any parameter that the optimizer has" if group is None else f"any parameter of the group {group!r}"
    return (
        f"{loss} gives no gradient to {learns}\nNext: look in compute_loss for `detach` or `no_grad`, and in "
        "build_optimizer for the parameters that it is to train."
    )


def _parameters_in(optimizer: Optimizer | None) -> list[Tensor]:
    return [] if optimizer is None else [p for group in optimizer.param_groups for p in group["params"]]


def backward(total: Tensor, parameters: Iterable[Tensor] | None = None) -> None:
    """`total.backward()` without its bookkeeping for torch's compiler, which costs as much as ten small operations.

    With `parameters` only these get gradients, and of them only those that are not frozen. Where nothing can get a
    gradient, nothing happens.
    """
    if parameters is None and set_written_out(total):
        return
    inputs = () if parameters is None else tuple(p for p in parameters if p.requires_grad)
    if not total.requires_grad or (parameters is not None and not inputs):
        return  # without inputs torch would compute the gradients of everything
    Variable._execution_engine.run_backward(
        (total,), (torch.ones_like(total),), False, False, inputs, allow_unreachable=True, accumulate_grad=True
    )


def set_written_out(total: Tensor) -> bool:
    """Set the gradients of the parameters without torch's engine, if `total` is the result of `written_out` itself.

    Returns:
        Whether it was. Gradients that were there before are replaced.
    """
    if not is_written_out(total):
        return False
    node: Any = total.grad_fn  # the context of the function's call
    for parameter, gradient in zip(node.parameters, node.gradients(1.0), strict=True):
        parameter.grad = gradient
    return True
