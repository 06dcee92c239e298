"""A short run of an algorithm that the kit watches: several checks ask what came of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from maze_core import Batch, Loss, Plugin, hookimpl
from maze_core.plugins.discovery import describe
from maze_core.run import api
from maze_devkit import runs
from maze_devkit.findings import NotApplicable
from maze_devkit.subject import Subject
from maze_devkit.synchronisation import Watch

if TYPE_CHECKING:
    from maze_core import Run


class Probe(Plugin):
    """Watches the loss: which parameters it gives gradients to, and where it makes the host wait."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.tensors: list[torch.Tensor] = []
        self.reached: set[int] = set()
        self.waits: set[str] = set()
        self.batches = 0

    @hookimpl(wrapper=True)
    def compute_loss(self, batch: Batch) -> Generator[None, Loss, Loss]:
        """Watch the computation of the loss, then record its gradients."""
        with Watch() as watch:
            loss = yield
        self.waits |= set(watch.found)
        self.batches += 1
        total = loss.total
        if total.requires_grad:  # else training reports it
            gradients = torch.autograd.grad(total, self.tensors, retain_graph=True, allow_unused=True)
            found = zip(self.tensors, gradients, strict=True)
            self.reached |= {id(tensor) for tensor, gradient in found if gradient is not None and bool(gradient.any())}
        return loss

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Let an algorithm train that turns out to compute no loss."""
        run.algorithm.calls = ("compute_loss",)


class LosslessProbe(Probe):
    """The same for algorithms that compute no loss, with which the core refuses what watches it."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.compute_loss = None  # type: ignore[assignment,method-assign]


def probe_of(subject: Subject) -> type[Probe]:
    """Return the probe for an algorithm."""
    calls = subject.plugin.calls
    return Probe if calls is None or "compute_loss" in calls else LosslessProbe


@dataclass(frozen=True)
class Rehearsal:
    """What came of the run."""

    error: Exception | None
    """What it failed with; the rest is empty then."""
    learned: Mapping[str, torch.Tensor]
    """What it learned, see `runs.learned`."""
    updates: int
    batches: int
    """Batches that the loss was computed of."""
    left_out: tuple[str, ...]
    """Parameters of the policy that the optimizer leaves out."""
    idle: tuple[str, ...]
    """Parameters with the optimizer that no loss gave a gradient to."""
    waits: tuple[str, ...]
    """Calls in the loss that make the host wait for the device."""
    values: bool
    """True if it estimates values."""
    moved: bool
    """True if a parameter of the policy, or of a network beside it, is not what it was at the start."""

    @property
    def proves_nothing(self) -> str:
        """Why a run that ended like this says nothing about the algorithm; empty if it learned."""
        if self.moved:
            return ""
        if self.batches:
            return f"a run of two epochs computes the loss of {self.batches} batches and moves no parameter"
        return "a run of two epochs yields no batch and moves no parameter: nothing has learned"

    def succeeded(self) -> Rehearsal:
        """Return the rehearsal. Raise NotApplicable if it failed, which the check `trains` reports."""
        if self.error is not None:
            raise NotApplicable(f"{runs.BROKEN_RUN} ({describe(self.error)})") from self.error
        return self


def rehearse(subject: Subject) -> Rehearsal:
    """Train a run of two epochs in the subject's folder."""
    folder = subject.folder / "rehearsal"
    values, more = {"callbacks.probe.name": "probe"}, {("callback", "probe"): probe_of(subject)}
    try:
        with runs.started(subject, runs.walk(subject), folder, values, more) as run:
            probe: Probe = run.hooks.plugin("callback")
            probe.tensors = [
                p for group in run.learner.optimizer.param_groups for p in group["params"] if p.requires_grad
            ]
            before = runs.parameters(run)
            updates = api.carry_out(run).updates
            return _watched(run, probe, updates, bool(runs.differing(before, runs.parameters(run))))
    except Exception as error:  # noqa: BLE001 — each check says in its own way what that means
        return Rehearsal(error, {}, 0, 0, (), (), (), False, False)


def _watched(run: Run, probe: Probe, updates: int, moved: bool) -> Rehearsal:
    networks = {"policy": run.policy, **run.algorithm.modules()}
    names = {id(p): f"{n}.{key}" for n, network in networks.items() for key, p in network.named_parameters()}
    optimized, own = {id(tensor) for tensor in probe.tensors}, run.learner.set_without_optimizer
    return Rehearsal(
        error=None,
        learned=runs.learned(run),
        updates=updates,
        batches=probe.batches,
        left_out=tuple(
            names[id(p)] for p in run.policy.parameters() if p.requires_grad and id(p) not in optimized | own
        ),
        idle=tuple(sorted(names.get(number, "a parameter") for number in optimized - probe.reached - own)),
        waits=tuple(sorted(probe.waits)),
        values=bool(run.algorithm.modules()) or bool(getattr(run.policy, "has_critic", False)),
        moved=moved,
    )
