"""The check of algorithms that let their batches be filled up with rows that weigh nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import torch
from maze_compile.filling import Filling

from maze_core import Batch, Loss, Plugin, Policy, hookimpl
from maze_core.learn.taken_over import declares
from maze_core.run import api
from maze_devkit import runs
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.rehearsal import rehearse
from maze_devkit.subject import Subject, blamed

if TYPE_CHECKING:
    from maze_core import Algorithm


class Comparison(Plugin):
    """Computes each loss a second time, of the batch with further rows that weigh nothing."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.algorithm: Algorithm[Any] | None = None
        """Whose losses are compared; None: nothing is."""
        self.parameters: list[torch.Tensor] = []
        self.differing: list[str] = []
        """What the further rows changed."""
        self.compared = 0

    @hookimpl(wrapper=True)
    def compute_loss(self, policy: Policy, batch: Batch) -> Generator[None, Loss, Loss]:
        """Compare both losses, and return the first."""
        loss = yield
        filled = Filling(len(batch) + len(batch) // 2).filled(batch)
        if self.algorithm is not None and len(filled) > len(batch):
            kept = self.algorithm.row_results
            other = self.algorithm.compute_loss(policy, filled)
            self.algorithm.row_results = kept
            self.compared += 1
            self.differing += [name for name, one, two in self._parts(loss, other) if not _close(one, two)]
        return loss

    def _parts(self, loss: Loss, other: Loss) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
        yield "the loss", loss.total.detach(), other.total.detach()
        for name, value in loss.metrics.items():
            yield f"the metric {name!r}", value, other.metrics[name]
        first, second = (
            torch.autograd.grad(total, self.parameters, retain_graph=True, allow_unused=True)
            for total in (loss.total, other.total)
        )
        for one, two in zip(first, second, strict=True):
            if one is not None and two is not None:
                yield "a gradient", one, two


def _close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return torch.allclose(first, second, rtol=1e-3, atol=1e-5)


def _weighs(subject: Subject) -> None:
    if not declares(subject.plugin, "weighs_rows"):
        raise NotApplicable("it does not declare `weighs_rows`")
    subject.bench.once(subject, rehearse).succeeded()
    values = {"callbacks.comparison.name": "comparison", "closed_form": False}
    more = {("callback", "comparison"): Comparison}
    try:
        with runs.started(subject, runs.walk(subject), subject.folder / "run", values, more) as run:
            comparison: Comparison = run.hooks.plugin("callback")
            comparison.algorithm, comparison.parameters = run.algorithm, run.learner.parameters
            api.carry_out(run)
    except Exception as error:
        raise Failed(f"the loss of a batch that was filled up fails: {blamed(subject, error)}") from error
    if comparison.differing:
        raise Failed(f"rows that weigh nothing change {comparison.differing[0]}")
    if not comparison.compared:
        raise NotApplicable("no batch could be filled up")


CHECKS = (
    Check(
        "row_weights",
        "If it declares `weighs_rows`, rows that weigh nothing change neither the loss nor its metrics and gradients.",
        "Batches that lack rows are filled up before they are compiled or recorded: the further rows would be learned "
        "from.",
        "Take every mean over rows in `compute_loss` with `mean_of_rows`, and compute what belongs to all rows, as "
        "normalised advantages do, in `batches`. Leave `weighs_rows` unset otherwise.",
        _weighs,
    ),
)
"""The check of weighted rows."""
