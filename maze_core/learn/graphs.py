"""Steps of the learner that a GPU repeats from a recording: small networks otherwise wait for Python.

A CUDA graph holds the kernels of a loss, its gradients and the optimizer's step. To repeat it is one call instead of
several hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from maze_core.base.bundled import packages
from maze_core.base.tolerant_output import to_stderr
from maze_core.data.batch import Batch
from maze_core.learn.learner_check import declares
from maze_core.learn.optimizers.adam import Adam
from maze_core.models.plain import has_hooks

if TYPE_CHECKING:
    from torch import nn

    from maze_core.base.tree import TensorTree
    from maze_core.data.batch import Loss
    from maze_core.plugins.hookspecs import Run

_WARM_UPS = 2
"""Steps before a recording: libraries allocate their workspace in the first."""
_KEPT = 16
"""Recordings of different kinds of batches that are kept."""
_AGREE = 1e-4
"""How far the results of a recording may differ from those of the code, relative to 1 or to the value."""


Take = Callable[[Batch], tuple["TensorTree", "TensorTree"]]
"""Takes a step on a batch; returns its scalars for `Learner.count`, and what the algorithm keeps about the rows."""


class RecordedStep:
    """A step for one kind of batch, with the memory that its tensors have for good."""

    def __init__(self, batch: Batch, take: Take, generators: Sequence[Any]) -> None:
        self._batch = batch.map(torch.clone)
        self._leaves = self._batch.leaves
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(self._graph):
            scalars, self._rows = take(self._batch)
            self._packed = torch.stack([value.float() for value in scalars.values()])
        self._names = list(scalars)

    def repeat(self, batch: Batch) -> tuple[TensorTree, TensorTree]:
        """Take the step on another batch of this kind; return its scalars, and what it keeps about the rows."""
        torch._foreach_copy_(self._leaves, batch.leaves)
        self._graph.replay()
        scalars = dict(zip(self._names, self._packed.clone().unbind(), strict=True))
        return scalars, {name: leaf.clone() for name, leaf in self._rows.items()}


class GraphedSteps:
    """Takes the steps of a run on a GPU: each kind of batch is recorded at its first step, and repeated from then on.

    A step that cannot be recorded, or whose recording computes something else, is taken as usual; a note says so once.
    """

    def __init__(self, run: Run, record: Callable[..., RecordedStep] = RecordedStep) -> None:
        self._run, self._learner, self._record = run, run.learner, record
        self._algorithm: Any = run.algorithm
        self._recordings: dict[Hashable, tuple[RecordedStep, list[tuple[Tensor, Tensor | None]]]] = {}
        """The recordings, and the gradients that they write, by kind of batch."""
        self._given_up = False
        self._networks: list[Tensor] = []
        """The parameters and buffers of this epoch."""
        self._optimizer = cast("Adam", run.learner.optimizer)  # `can_be_recorded` asks for it
        self._optimizer.rates_on_device()

    def begin_epoch(self) -> None:
        """Look whether the networks are still such that can be recorded: plugins may change them between epochs."""
        self._networks = _tensors(self._run)
        if not self._given_up and not can_be_recorded(self._run):
            self._give_up("a plugin has changed the networks")

    def step(self, batch: Batch) -> None:
        """Take one optimizer step on a batch."""
        self._optimizer.refresh_rates()
        kind = None if self._given_up else self._kind_of(batch)
        if kind is None:
            self._as_usual(batch)
            return
        if kind not in self._recordings and not self._prepare(kind, batch):
            self._as_usual(batch)
            return
        recording, gradients = self._recordings[kind]
        for parameter, gradient in gradients:
            parameter.grad = gradient
        scalars, self._algorithm.row_results = recording.repeat(batch)
        self._learner.count(scalars)

    def _as_usual(self, batch: Batch) -> None:
        self._learner.step(self._run.hooks.compute_loss(self._run.policy, batch), batch.group, batch.objective)

    def _kind_of(self, batch: Batch) -> Hashable | None:
        """Return what tells batches apart that need recordings of their own; None: this one cannot be recorded."""
        constants = self._algorithm.loss_constants()
        if constants is None or batch.sequences is not None:
            return None
        leaves = [
            (key, leaf.shape, leaf.dtype, leaf.device)
            for tree in (batch.obs, batch.actions, batch.extra, batch.next_obs)
            for key, leaf in tree.items()
        ]
        # A tensor in another place would not be seen.
        places = [(tensor.data_ptr(), tensor.requires_grad) for tensor in self._networks]
        return batch.objective, batch.group, constants, tuple(leaves), tuple(places)

    def _prepare(self, kind: Hashable, batch: Batch) -> bool:
        """Record the step of a batch, and return True if the recording can be used. Nothing is learnt from it."""

        def take(of: Batch) -> tuple[TensorTree, TensorTree]:
            loss: Loss = self._run.hooks.compute_loss(self._run.policy, of)
            return self._learner.take_loss(loss, of.group, of.objective), dict(self._algorithm.row_results)

        try:
            with self._undone():
                recording = self._checked(batch, take)
                gradients = [(parameter, parameter.grad) for parameter in self._learner.parameters]
        except Exception as error:  # noqa: BLE001 — whatever cannot be recorded is done without
            self._give_up(str(error).splitlines()[0] if str(error) else type(error).__name__)
            return False
        if recording is None:
            self._give_up("its recording gives other results")
            return False
        if len(self._recordings) >= _KEPT:
            del self._recordings[next(iter(self._recordings))]
        self._recordings[kind] = recording, gradients
        return True

    def _checked(self, batch: Batch, take: Take) -> RecordedStep | None:
        """Return the recording of a step; None where it computes something else than the step itself."""
        with _beside(self._run.device):
            for _ in range(_WARM_UPS):
                with self._undone():
                    wanted = {name: value.clone() for name, value in take(batch)[0].items()}
        recording = self._record(batch, take, self._generators())
        with self._undone():
            found, _ = recording.repeat(batch)
        agree = all(torch.allclose(found[name], wanted[name].float(), _AGREE, _AGREE, equal_nan=True) for name in found)
        return recording if agree else None

    def _give_up(self, reason: str) -> None:
        self._given_up = True
        name = self._algorithm.config.name
        to_stderr(f"note: the updates of {name} are not repeated from a recording: {reason}; the run goes on")

    def _generators(self) -> list[torch.Generator]:
        """Return the device's random generators that a loss may draw from, but torch's global one."""
        kept, device = self._algorithm.kept.values(), self._run.device
        return [part for part in kept if isinstance(part, torch.Generator) and part.device.type == device.type]

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Restore networks, optimizer and random numbers at the end of the block."""
        generators = [*self._generators(), _global_generator(self._run.device)]
        states = [generator.get_state() for generator in generators]
        tensors = [*self._networks, *self._optimizer.tensors()]
        before = [tensor.detach().clone() for tensor in tensors]
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in zip(tensors, before, strict=True):
                    tensor.copy_(value)
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)


def graphed_steps(run: Run) -> GraphedSteps | None:
    """Return what repeats a run's steps from recordings; None where all are taken as usual.

    Recorded are runs on a GPU whose algorithm declares what its loss depends on, without other plugins in the loss and
    with networks of Maze and torch only: code of others may do something else in each step.
    """
    able = run.device.type == "cuda" and run.config.cuda_graphs and run.config.learners == 1
    return GraphedSteps(run) if able and can_be_recorded(run) else None


def can_be_recorded(run: Run) -> bool:
    """Return True if nothing but the algorithm's own loss and known networks take part in a step."""
    alone = len(run.hooks.implementers("compute_loss", "build_modules")) == 1
    known = all(_is_known(network) for network in (run.policy, *run.modules.values()))
    return alone and known and declares(run.algorithm, "loss_constants") and type(run.learner.optimizer) is Adam


def _global_generator(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]


@contextmanager
def _beside(device: torch.device) -> Iterator[None]:
    """Work on a stream of one's own inside the block: torch asks for that before a recording."""
    if device.type != "cuda":
        yield
        return
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    main = torch.cuda.current_stream()
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield
    main.wait_stream(side)


def _is_known(network: nn.Module) -> bool:
    found = {type(module).__module__.partition(".")[0] for module in network.modules()}
    return found <= {"torch", *packages()} and not has_hooks(network)


def _tensors(run: Run) -> list[Tensor]:
    """Return all parameters and buffers of a run's networks, each once."""
    networks = (run.policy, *run.modules.values())
    found = {id(t): t for network in networks for t in (*network.parameters(), *network.buffers())}
    return list(found.values())
