"""Compares a step that is repeated with that of the code: what it gives, and what the optimizer makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from maze_compile.repeatable import networks_of, tensors_of

if TYPE_CHECKING:
    from maze_core import Batch
    from maze_core.plugins.hookspecs import Run

Results = dict[str, Tensor]
"""What a step gives, by what it is."""

_AGREE = 0.02
"""How far gradients and scalars may differ from those of the code, relative to their norm. A row whose activation is
just at a bend may count on either side of it."""
_ROUNDING = 1e-5
"""How far single numbers that are no gradients may differ: the log-ratio of a policy that has not moved is rounding."""
_NOISE = 10.0
"""How far results may differ, in units of what rounding the parameters differently makes of those of the code."""
_NAMED = 3
"""Results that a message names."""


class Schedule:
    """Which steps of a kind are compared: the first ones, and later the first one of an epoch.

    Nothing but counts decides, which a checkpoint may hold: a resumed run compares the same steps.

    Args:
        counts: how many of the next steps are compared; the epoch and the step of the last comparison.
        apart: steps between two comparisons, at least: an epoch may have few, and a comparison takes as long as some.
    """

    def __init__(self, counts: list[int], apart: int) -> None:
        self._counts, self._apart = counts, apart

    def is_due(self, run: Run) -> bool:
        """Return True if the next step is to be compared."""
        left, epoch, step = self._counts
        return left > 0 or (run.epoch != epoch and run.learner.steps - step >= self._apart)

    def count(self, run: Run) -> None:
        """Count the comparison of the next step."""
        self._counts[:] = max(self._counts[0] - 1, 0), run.epoch, run.learner.steps


class Comparison:
    """The results of the code for one step, before it is taken another way.

    Tensors and random numbers are as before once it is made.

    Args:
        run: the run.
        batch: what the step learns from.
        changed: all tensors that a step changes.
    """

    def __init__(self, run: Run, batch: Batch, changed: list[Tensor]) -> None:
        self._run, self._batch, self._changed = run, batch, changed
        self._before = Before(run, changed)
        self._wanted = self._of_code()

    def undo(self) -> None:
        """Let tensors and random numbers be what they were before the step."""
        self._before.restore()

    def differing(self, found: Results) -> str:
        """Return which results of a step differ from those of the code, for a message; empty: none does."""
        missing = [name for name in self._wanted if name not in found]
        other = [name for name in found if name not in self._wanted or not self._agrees(name, found)]
        if other and not missing:
            other = self._beyond_rounding(other, found)
        return named([*missing, *other])

    def optimizes_alike(self, parameters: list[Tensor], gradients: list[Tensor], changed: list[Tensor]) -> str:
        """Return what the optimizer changes otherwise, given the gradients of the step that was taken; empty: nothing.

        Args:
            parameters: those that learn.
            gradients: of each.
            changed: what the step has changed in the place of the optimizer.
        """
        learner, names = self._run.learner, {id(tensor): name for name, tensor in _names(self._run)}
        ours = [tensor.detach().clone() for tensor in changed]
        with kept(self._run, self._changed):
            self.undo()
            old = [tensor.detach().clone() for tensor in changed]
            learner.set_gradients(parameters, [gradient.clone() for gradient in gradients])
            learner.optimizer.step()
            alike = [
                agree(found - before, tensor.detach() - before, 0.0)
                for found, tensor, before in zip(ours, changed, old, strict=True)
            ]
        differing = [
            names.get(id(tensor), "its moments") for tensor, same in zip(changed, alike, strict=True) if not same
        ]
        return named([f"the optimizer's step of {name}" for name in differing])

    def _of_code(self) -> Results:
        with kept(self._run, self._changed):
            return results_of_code(self._run, self._batch)

    def _agrees(self, name: str, found: Results) -> bool:
        return agree(found[name], self._wanted[name], 0.0 if name.startswith(_GRADIENT) else _ROUNDING)

    def _beyond_rounding(self, names: list[str], found: Results) -> list[str]:
        """Return those results that differ by more than what rounding the parameters differently makes of the code's.

        A loss of differences between large numbers has gradients that consist of rounding.
        """
        with kept(self._run, self._changed):
            self.undo()
            again = self._of_code()
            with torch.no_grad():
                for number, parameter in enumerate(self._run.learner.parameters):
                    parameter.mul_(1 + (-1) ** number * torch.finfo(parameter.dtype).eps)
            rounded = self._of_code()
        return [name for name in names if not self._is_rounding(name, found, again, rounded)]

    def _is_rounding(self, name: str, found: Results, again: Results, rounded: Results) -> bool:
        ours, once_more, other = (each.get(name) for each in (found, again, rounded))
        wanted = self._wanted.get(name)
        if ours is None or once_more is None or other is None or wanted is None or ours.shape != wanted.shape:
            return False
        same = torch.equal(once_more, wanted) if wanted.device.type == "cpu" else agree(once_more, wanted, 0.0)
        return same and bool(_distance(ours, wanted) <= _NOISE * _distance(other, wanted))


_GRADIENT = "the gradient of "


def results_of_code(run: Run, batch: Batch) -> Results:
    """Return the results of the code for a batch: clipped gradients, scalars, what is kept about the rows, buffers."""
    learner = run.learner
    loss = run.hooks.compute_loss(run.policy, batch)
    loss, gradients, norm = learner.differentiated(loss, batch.group, batch.objective)
    learner.clip(gradients, norm)
    learning = [parameter for parameter in learner.parameters_of(batch.group) if parameter.grad is not None]
    return results(run, learning, gradients, norm, loss.total, loss.metrics, run.algorithm.row_results)


def results(
    run: Run,
    learning: list[Tensor],
    gradients: list[Tensor],
    norm: Tensor,
    total: Tensor,
    metrics: dict[str, Tensor],
    rows: dict[str, Tensor],
) -> Results:
    """Return copies of what a step gives, by what it is: also of the tensors that do not learn, as it leaves them."""
    names = {id(tensor): name for name, tensor in _names(run)}
    ids = {id(parameter) for parameter in learning}
    found = {
        **{f"{_GRADIENT}{names.get(id(p), 'a parameter')}": g for p, g in zip(learning, gradients, strict=True)},
        "the norm of the gradients": norm,
        "the loss": total,
        **{f"the metric {name!r}": value for name, value in metrics.items()},
        **{f"{name!r} of `row_results`": value for name, value in rows.items()},
        **{names[id(tensor)]: tensor for tensor in tensors_of(run) if id(tensor) not in ids},
    }
    return {name: value.detach().clone() for name, value in found.items()}


def _names(run: Run) -> Iterator[tuple[str, Tensor]]:
    for network, module in networks_of(run).items():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            yield f"{network}.{name}", tensor


def named(names: list[str]) -> str:
    """Return some names as a part of a sentence."""
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def agree(found: Tensor, wanted: Tensor, rounding: float) -> bool:
    """Whether two results are the same; `rounding`: by how much their numbers may differ in any case."""
    if found.shape != wanted.shape:
        return False
    size = wanted.double().norm()
    return not size.isfinite() or bool(
        _distance(found, wanted) <= _AGREE * size + 1e-6 + rounding * wanted.numel() ** 0.5
    )


def _distance(first: Tensor, second: Tensor) -> Tensor:
    distance: Tensor = (first.double() - second.double()).norm()
    return distance


class Before:
    """Tensors and random numbers of a run as they are now."""

    def __init__(self, run: Run, tensors: list[Tensor]) -> None:
        self._tensors = tensors
        self._generators = [*generators_of(run), _global_generator(run.device)]
        self._states = [generator.get_state() for generator in self._generators]
        self.values = [tensor.detach().clone() for tensor in tensors]

    def restore(self) -> None:
        """Let them be so again."""
        with torch.no_grad():
            for tensor, value in zip(self._tensors, self.values, strict=True):
                tensor.copy_(value)
        for generator, state in zip(self._generators, self._states, strict=True):
            generator.set_state(state)


@contextmanager
def kept(run: Run, tensors: list[Tensor]) -> Iterator[None]:
    """Restore tensors and random numbers at the end of the block."""
    before = Before(run, tensors)
    try:
        yield
    finally:
        before.restore()


def generators_of(run: Run) -> list[torch.Generator]:
    """Return the device's random generators that a loss may draw from, but torch's global one."""
    parts = run.algorithm.kept.values()
    return [part for part in parts if isinstance(part, torch.Generator) and part.device.type == run.device.type]


def random_states(run: Run) -> list[bytes]:
    """Return the states of the generators that a loss may draw from."""
    generators = [*generators_of(run), _global_generator(run.device)]
    return [generator.get_state().numpy().tobytes() for generator in generators]


def _global_generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
