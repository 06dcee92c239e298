"""Steps of the learner that a GPU repeats from a recording: small networks otherwise wait for Python.

A CUDA graph holds the kernels of a loss, its gradients and the optimizer's step. To repeat it is one call instead of
several hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch

from maze_core.learn.repeated.steps import CannotRepeatError, Step, errors_refuse, generators_of, tensors_of, undone

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree
    from maze_core.data.batch import Batch, Loss
    from maze_core.learn.optimizers.adam import Adam
    from maze_core.plugins.hookspecs import Run

_WARM_UPS = 2
"""Steps before a recording: libraries allocate their workspace in the first."""
_KEPT = 16
"""Recordings of different kinds of batches that are kept."""
_AGREE = 1e-4
"""How far the results of a recording may differ from those of the code, relative to 1 or to the value."""

Take = Callable[["Batch"], tuple["TensorTree", "TensorTree"]]
"""Takes a step on a batch; returns its scalars for `Learner.count`, and what the algorithm keeps about the rows."""


class Graph:
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


class _RecordedStep:
    is_due = True

    def __init__(self, run: Run, graph: Graph) -> None:
        self._learner, self._algorithm, self._graph = run.learner, run.algorithm, graph
        self._gradients = [(parameter, parameter.grad) for parameter in run.learner.parameters]

    def take(self, batch: Batch, filled: Batch) -> None:
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        scalars, self._algorithm.row_results = self._graph.repeat(filled)
        self._learner.count(scalars)

    def close(self) -> None:
        pass


class GraphRecorder:
    """Records steps as CUDA graphs, from the first step on."""

    failure = "not repeated from a recording"

    def __init__(self, run: Run, make: Callable[..., Graph] = Graph) -> None:
        self._run, self._learner, self._make = run, run.learner, make
        self._optimizer = cast("Adam", run.learner.optimizer)  # others are not recorded
        self._optimizer.rates_on_device()

    def begin_step(self, batch: Batch) -> bool:
        """Let the recordings see the learning rates of this step."""
        self._optimizer.refresh_rates()
        return True

    def record(self, batch: Batch) -> Step:
        """Record the step of a batch, and look whether the recording computes the same."""

        def take(of: Batch) -> tuple[TensorTree, TensorTree]:
            loss: Loss = self._run.hooks.compute_loss(self._run.policy, of)
            return self._learner.take_loss(loss, of.group, of.objective), dict(self._run.algorithm.row_results)

        with errors_refuse(), self._undone():
            return _RecordedStep(self._run, self._checked(batch, take))

    def make_room(self, recorded: dict[Hashable, Step]) -> None:
        """Delete the oldest recording where there are too many."""
        if len(recorded) >= _KEPT:
            del recorded[next(iter(recorded))]

    def _checked(self, batch: Batch, take: Take) -> Graph:
        with _beside(self._run.device):
            for _ in range(_WARM_UPS):
                with self._undone():
                    wanted = {name: value.clone() for name, value in take(batch)[0].items()}
        graph = self._make(batch, take, generators_of(self._run))
        with self._undone():
            found, _ = graph.repeat(batch)
        agree = all(torch.allclose(found[name], wanted[name].float(), _AGREE, _AGREE, equal_nan=True) for name in found)
        if not agree:
            raise CannotRepeatError("its recording gives other results")
        return graph

    def _undone(self) -> Any:
        return undone(self._run, [*tensors_of(self._run), *self._optimizer.tensors()])


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
