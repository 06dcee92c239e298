"""Steps of the learner that a GPU repeats from a recording: small networks otherwise wait for Python.

A CUDA graph holds the kernels of a loss, its gradients and the optimizer's step. To repeat it is one call instead of
several hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import torch

from maze_compile.comparison import Comparison, Schedule, generators_of, kept, random_states, results
from maze_compile.repeatable import tensors_of
from maze_compile.steps import CannotRepeatError, Step, errors_refuse
from maze_core import Adam
from maze_core.learn.learner import WATCH, norm_of

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Batch, Loss, TensorTree
    from maze_core.plugins.hookspecs import Run

_WARM_UPS = 2
"""Steps before a recording: libraries allocate their workspace in the first."""
_APART = 1_000
"""Steps between two comparisons of a recording with the code, at least: each takes as long as about ten."""
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

    def __init__(self, run: Run, graph: Graph, *, draws: bool) -> None:
        self._run, self._graph, self.draws = run, graph, draws
        self._gradients = [(parameter, parameter.grad) for parameter in run.learner.parameters]
        self._schedule = Schedule([0, run.epoch, run.learner.steps], _APART)  # this one is compared

    def take(self, batch: Batch, filled: Batch) -> None:
        run = self._run
        due = self._schedule.is_due(run)
        comparison = Comparison(run, batch, changed_by_steps(run)) if due else None
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        scalars, run.algorithm.row_results = self._graph.repeat(filled)
        if comparison is not None:
            self._check(comparison, dict(scalars), batch)
            self._schedule.count(run)
        run.learner.count(scalars)

    def _check(self, comparison: Comparison, scalars: TensorTree, batch: Batch) -> None:
        """Raise CannotRepeatError, with all as it was before the step, where the code gives other results."""
        run = self._run
        parameters = [parameter for parameter in run.learner.parameters if parameter.grad is not None]
        gradients = [cast("Tensor", parameter.grad) for parameter in parameters]
        norm, watch = scalars.pop(norm_of(batch.group)), scalars.pop(WATCH)
        rows = {name: leaf[: len(batch)] for name, leaf in run.algorithm.row_results.items()}
        found = results(run, parameters, gradients, norm, watch - norm, scalars, rows)
        differing = comparison.differing(found)
        if not differing:
            changed = [*parameters, *cast(Adam, run.learner.optimizer).tensors()]
            differing = comparison.optimizes_alike(parameters, gradients, changed)
            run.learner.set_gradients(parameters, gradients)
        if differing:
            comparison.undo()
            raise CannotRepeatError(f"its recording gives other results for {differing}")


def changed_by_steps(run: Run) -> list[Tensor]:
    """Return all tensors that a step changes; the optimizer is Maze's Adam."""
    return [*tensors_of(run), *cast(Adam, run.learner.optimizer).tensors()]


class GraphRecorder:
    """Records steps as CUDA graphs, from the first step on."""

    failure = "not repeated from a recording"
    reads_settings = False

    def __init__(self, run: Run, make: Callable[..., Graph] = Graph) -> None:
        self._run, self._learner, self._make = run, run.learner, make
        self._optimizer: Adam | None = None

    def begin_step(self, batch: Batch) -> bool:
        """Let the recordings see the learning rates of this step."""
        optimizer = self._learner.optimizer
        if type(optimizer) is Adam:  # others are not recorded
            if optimizer is not self._optimizer:
                self._optimizer = optimizer
                optimizer.rates_on_device()
            optimizer.refresh_rates()
        return True

    def record(self, batch: Batch) -> Step:
        """Record the step of a batch, and look whether the recording computes the same."""

        def take(of: Batch) -> tuple[TensorTree, TensorTree]:
            loss: Loss = self._run.hooks.compute_loss(self._run.policy, of)
            return self._learner.take_loss(loss, of.group, of.objective), dict(self._run.algorithm.row_results)

        if type(self._learner.optimizer) is not Adam or self._learner.plugins_optimizer is not None:
            raise CannotRepeatError("its optimizer is another one than Maze's Adam")
        with errors_refuse(), self._undone():
            return self._checked(batch, take)

    def close(self) -> None:
        """Do nothing: recordings end with the steps."""

    def _checked(self, batch: Batch, take: Take) -> Step:
        with _beside(self._run.device):
            for _ in range(_WARM_UPS):
                with self._undone():
                    before = random_states(self._run)
                    wanted = {name: value.clone() for name, value in take(batch)[0].items()}
                    drawing = random_states(self._run) != before
        graph = self._make(batch, take, generators_of(self._run))
        with self._undone():
            found, _ = graph.repeat(batch)
        agree = all(torch.allclose(found[name], wanted[name].float(), _AGREE, _AGREE, equal_nan=True) for name in found)
        if not agree:
            raise CannotRepeatError("its recording gives other results")
        return _RecordedStep(self._run, graph, draws=drawing)

    def _undone(self) -> Any:
        return kept(self._run, changed_by_steps(self._run))


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
