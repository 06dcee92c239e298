"""Steps of the learner that are recorded once for each kind of batch, and repeated from then on."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from maze_core.base.bundled import packages
from maze_core.base.tolerant_output import to_stderr
from maze_core.learn.learner_check import IN_LOSS, declares
from maze_core.learn.repeated.filling import Filling, rows_of_a_rollout
from maze_core.models.memory import remembers
from maze_core.models.plain import has_hooks

if TYPE_CHECKING:
    from torch import nn

    from maze_core.data.batch import Batch
    from maze_core.plugins.hookspecs import Run


class CannotRepeatError(Exception):
    """A step cannot be repeated; the message says why, as the end of a sentence. Empty: the user need not know."""


@contextmanager
def errors_refuse() -> Iterator[None]:
    """Raise CannotRepeatError for every error inside: the code itself may do without what failed."""
    try:
        yield
    except CannotRepeatError:
        raise
    except Exception as error:
        raise CannotRepeatError(str(error).splitlines()[0] if str(error) else type(error).__name__) from error


class Step(Protocol):
    """A step that was recorded for one kind of batch."""

    @property
    def is_due(self) -> bool:
        """False while steps of this kind are still taken as usual."""

    def take(self, batch: Batch, filled: Batch) -> None:
        """Take the learner's step on another batch of this kind, and set the algorithm's `row_results`.

        Args:
            batch: the batch.
            filled: the same of this kind, perhaps with further rows, whose `row_results` are kept, too.

        Raises:
            CannotRepeatError: it computes something else than the code. Nothing is learnt then.
        """

    def close(self) -> None:
        """End what still makes it; safe to call twice."""


class Recorder(Protocol):
    """Records steps: in memory of a GPU, or as code of a compiler."""

    failure: str
    """What updates are where it fails, as a part of a sentence."""

    def begin_step(self, batch: Batch) -> bool:
        """Prepare for the step of a batch; return True if it may be recorded."""

    def record(self, batch: Batch) -> Step:
        """Return the step of a batch. Nothing is learnt from it.

        Raises:
            CannotRepeatError: it cannot be recorded.
        """

    def make_room(self, recorded: dict[Hashable, Step]) -> None:
        """Delete recordings where there are too many of them.

        Raises:
            CannotRepeatError: no further ones are made.
        """


class RepeatedSteps:
    """Takes the steps of a run: each kind of batch is recorded at its first step, and repeated from then on.

    A step that cannot be recorded, or whose recording computes something else, is taken as usual.
    """

    def __init__(self, run: Run, recorder: Recorder) -> None:
        self._run, self._learner, self._recorder = run, run.learner, recorder
        self._algorithm: Any = run.algorithm
        self._recorded: dict[Hashable, Step] = {}
        self.given_up = False
        """True once some step could not be repeated."""
        self.recording = False
        """True while a step is recorded: its gradients must come from torch's operations."""
        self._least, self._filling = _rows_of_whole_rollouts(run), Filling.of(run)
        self._networks: list[Tensor] | None = None
        """The parameters and buffers of this epoch; None: nothing was looked at."""

    def begin_epoch(self) -> None:
        """Begin an epoch: plugins may have changed the networks, so they are looked at again at the next step."""
        self._networks = None

    def step(self, batch: Batch) -> None:
        """Take one optimizer step on a batch."""
        filled = batch if self.given_up else self._filling.filled(batch)
        may_record = self._recorder.begin_step(filled)
        kind = self._kind_of(filled) if may_record and not self.given_up else None
        if kind is not None:
            try:
                repeated = self._recording(kind, filled)
                if repeated.is_due:
                    repeated.take(batch, filled)
                    self._cut_row_results(len(batch), len(filled))
                    return
            except CannotRepeatError as error:
                self._give_up(str(error))
        self._learner.step(self._run.hooks.compute_loss(self._run.policy, batch), batch.group, batch.objective)

    def _cut_row_results(self, rows: int, with_further: int) -> None:
        if rows < with_further:
            kept = self._algorithm.row_results
            self._algorithm.row_results = {name: leaf[:rows] for name, leaf in kept.items()}

    def _recording(self, kind: Hashable, batch: Batch) -> Step:
        if (found := self._recorded.get(kind)) is not None:
            return found
        self._recorder.make_room(self._recorded)
        self.recording = True
        try:
            self._recorded[kind] = self._recorder.record(batch)
        finally:
            self.recording = False
        return self._recorded[kind]

    def _kind_of(self, batch: Batch) -> Hashable | None:
        """Return what tells batches apart that need recordings of their own; None: this one cannot be recorded."""
        if self._networks is None:
            self._networks = tensors_of(self._run)
            if unrepeatable(self._run) is not None:
                self._give_up("a plugin has changed the networks")
                return None
        constants = self._algorithm.loss_constants()
        if constants is None or batch.sequences is not None or len(batch) < self._least:
            return None
        leaves = [
            (key, leaf.shape, leaf.stride(), leaf.dtype, leaf.device)
            for tree in (batch.obs, batch.actions, batch.extra, batch.next_obs)
            for key, leaf in tree.items()
        ]
        # A tensor in another place would not be seen.
        places = [(tensor.data_ptr(), tensor.requires_grad) for tensor in self._networks]
        return batch.objective, batch.group, constants, tuple(leaves), tuple(places)

    def close(self) -> None:
        """End what still makes recordings; safe to call twice."""
        for step in self._recorded.values():
            step.close()
        self._recorded.clear()

    def _give_up(self, reason: str) -> None:
        self.given_up = True
        self.close()
        if reason:
            note_failure(self._algorithm.config.name, self._recorder.failure, reason)


def note_failure(name: str, failure: str, reason: str) -> None:
    """Say that the updates of an algorithm are taken as usual, and why."""
    to_stderr(f"note: the updates of {name} are {failure}: {reason}; the run goes on")


def unrepeatable(run: Run) -> str | None:
    """Return why a run's steps cannot be repeated; None: nothing but the algorithm's own loss takes part in them.

    Code of others may do something else in each step.
    """
    if not declares(run.algorithm, "loss_constants"):
        return "the algorithm does not say what its loss depends on (`loss_constants`)"
    if len(run.hooks.implementers(*IN_LOSS)) > 1:
        return "a plugin takes part in the loss"
    if not all(_is_known(network) for network in (run.policy, *run.modules.values())):
        return "a network has layers that neither torch nor Maze brings, or hooks"
    if remembers(run.policy):
        return "the policy has a memory"
    return "there are several learners" if run.config.learners > 1 else None


def _is_known(network: nn.Module) -> bool:
    found = {type(module).__module__.partition(".")[0] for module in network.modules()}
    hooked = any(p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None) for p in network.parameters())
    return found <= {"torch", *packages()} and not hooked and not has_hooks(network)


def _rows_of_whole_rollouts(run: Run) -> int:
    """Return how many rows a batch has that is a whole rollout; 0 where batches are no whole rollouts.

    One that lacks the rows of resets may have another size each time, which is no kind of its own.
    """
    rows = rows_of_a_rollout(run)
    return rows if rows <= getattr(run.config.algorithm, "batch_size", math.inf) else 0


def tensors_of(run: Run) -> list[Tensor]:
    """Return all parameters and buffers of a run's networks, each once."""
    networks = (run.policy, *run.modules.values())
    found = {id(t): t for network in networks for t in (*network.parameters(), *network.buffers())}
    return list(found.values())


def generators_of(run: Run) -> list[torch.Generator]:
    """Return the device's random generators that a loss may draw from, but torch's global one."""
    kept = run.algorithm.kept.values()
    return [part for part in kept if isinstance(part, torch.Generator) and part.device.type == run.device.type]


@contextmanager
def undone(run: Run, tensors: list[Tensor]) -> Iterator[None]:
    """Restore tensors and random numbers at the end of the block."""
    generators = [*generators_of(run), _global_generator(run.device)]
    states = [generator.get_state() for generator in generators]
    before = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def _global_generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
