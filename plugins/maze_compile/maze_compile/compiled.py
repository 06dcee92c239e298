"""Steps of the learner that are compiled: on a CPU small operations otherwise take as long as the large ones.

A step becomes the list of torch's operations that its loss and gradients consist of. A compiler joins those that pass
over the same numbers. The step of Adam is among them where the networks are small; otherwise the optimizer takes it
afterwards. A long run compiles in the background, and takes the result into use at a step that is known beforehand.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from maze_compile.comparison import Comparison, Results, Schedule, kept, results
from maze_compile.machine_code import Compilation, Library
from maze_compile.repeatable import networks_of, tensors_of
from maze_compile.steps import CannotRepeatError, Step, errors_refuse
from maze_compile.tape import Tape
from maze_compile.traced_adam import TracedAdam
from maze_core import Adam
from maze_core.base.tolerant_output import to_stderr
from maze_core.learn.gradients import clip_factor, is_written_out
from maze_core.learn.optimizers import parts_of

if TYPE_CHECKING:
    from maze_core import Batch, Optimizer
    from maze_core.plugins.hookspecs import Run

_SETTLED = 1_000
"""Steps after which a run that may repay compiling begins it: one that fails at once need not wait for it."""
REPAYS = 30_000
"""Steps still to come for which compiling repays: it takes as long as 10,000 to 25,000 steps save."""
_AHEAD = 5_000
"""Steps from the beginning of compiling to the first compiled one, which waits for the compiler if it is not done. The
number is fixed, so that a resumed run goes on like an unbroken one."""
_APART = 1_000
"""Steps between two later comparisons: each takes as long as about two."""


class CompileRecorder:
    """Compiles steps: from the first on, or beside the training of a run that is long enough.

    Args:
        run: the run.
        at_once: True: from the first step on.
        make: what compiles; None: a `Compilation`.
        compared: the first steps of each kind that are compared with those of the code.
        kinds: kinds of steps that are compiled.
    """

    failure = "not compiled"
    reads_settings = True

    def __init__(
        self,
        run: Run,
        *,
        at_once: bool,
        make: type[Compilation] | None = None,
        compared: int = 3,
        kinds: int = 4,
    ) -> None:
        self._run, self._at_once, self._make = run, at_once, make or Compilation
        self._compared, self._kinds = compared, kinds
        self._programs: dict[str, Program] = {}
        self._rows = getattr(run.config.algorithm, "batch_size", math.inf)

    def begin_step(self, batch: Batch) -> bool:
        """Return True once compiling has begun, unless the batch lacks rows that others have.

        Nothing but counts decides: a resumed run goes on alike.
        """
        state, steps = self._run.state, self._run.learner.steps
        if steps == 0:
            state.learning_began = self._run.env_steps
        if state.compiled_from is None:
            if self._at_once:
                state.compiled_from = steps
            elif steps >= _SETTLED and self._steps_left() >= REPAYS:
                state.compiled_from = steps + _AHEAD
        state.largest_batch = max(state.largest_batch, len(batch))
        full = min(self._rows, state.largest_batch)  # a rollout may have fewer rows than a minibatch
        return state.compiled_from is not None and len(batch) >= full

    def _steps_left(self) -> float:
        """Return how many steps there will be in the rest of the run, as far as it is known."""
        run = self._run
        began, done = run.state.learning_began / (run.total_env_steps or math.inf), run.fraction_done
        return run.learner.steps * (1 - done) / (done - began) if done > began else math.inf

    def record(self, batch: Batch) -> Step:
        """Write the step of a batch down, and begin to compile it, unless an earlier one consists of the same."""
        self._make.check()
        try:
            tape = Tape(batch.leaves)
            step = CompiledStep(self._run, batch, tape)
            description = tape.description(step.outputs)
            digest = hashlib.sha256(json.dumps(description).encode()).hexdigest()
            if digest not in self._programs:
                counts = self._counts_of(digest)
                whole, filled = (Schedule(counts[which], _APART) for which in ("whole", "filled"))
                self._programs[digest] = Program(counts["from"][0], whole, filled, self._make(description))
        except CannotRepeatError as error:
            raise self._refusal(str(error)) from error
        step.program = self._programs[digest]
        return step

    def _counts_of(self, digest: str) -> dict[str, list[int]]:
        """Return what a checkpoint holds about a kind of steps: see `RunState.compiled_kinds`."""
        state, steps = self._run.state, self._run.learner.steps
        if digest not in state.compiled_kinds:
            if len(state.compiled_kinds) >= self._kinds:
                raise CannotRepeatError(f"its steps have more than {self._kinds} kinds")
            first = max(state.compiled_from or 0, steps if self._at_once else steps + _AHEAD)
            compared = [self._compared, self._run.epoch, steps]
            state.compiled_kinds[digest] = {"from": [first], "whole": compared, "filled": compared.copy()}
        return state.compiled_kinds[digest]

    def _refusal(self, reason: str) -> CannotRepeatError:
        """Return the error for a run whose steps are not made for it: who has not asked for it need not know."""
        told = self._at_once or any(program.loaded is not None for program in self._programs.values())
        return CannotRepeatError(reason if told else "")

    def close(self) -> None:
        """End the compilers; safe to call twice."""
        for program in self._programs.values():
            program.compilation.close()
        self._programs.clear()


@dataclass
class Program:
    """The machine code of the steps of one kind."""

    first: int
    """The step from which on it is used."""
    whole: Schedule
    """Which whole batches are compared."""
    filled: Schedule
    """Which batches are compared that lack rows."""
    compilation: Compilation
    loaded: Library | None = None
    """None: it was not used yet."""


class CompiledStep:
    """The loss of one kind of batch and its gradients as machine code.

    Args:
        run: the run.
        batch: the one with which operations are recorded. Nothing is learnt from it.
        tape: records them.

    Raises:
        CannotRepeatError: it cannot be compiled. The message is empty where the loss brings gradients of its own.
    """

    program: Program

    def __init__(self, run: Run, batch: Batch, tape: Tape) -> None:
        self._run = run
        self._changed = [*tensors_of(run), *_state_of(run.learner.optimizer)]
        with kept(run, self._changed), errors_refuse():
            self.outputs = self._recorded(tape, batch)
        self._draws, self._constants = tape.draws, [constant.detach() for constant in tape.constants]
        self.draws = bool(tape.draws)

    def _recorded(self, tape: Tape, batch: Batch) -> list[Tensor]:
        """Take the operations of a step down.

        It writes the clipped gradients, and takes the step of Adam if that can be.

        Returns the norm of all gradients before clipping, the loss, its metrics and row results.
        """
        run, learner = self._run, self._run.learner
        parameters = [parameter for parameter in learner.parameters_of(batch.group) if parameter.requires_grad]
        before = _attributes(run)
        run.algorithm.row_results = {}
        with tape:
            loss = run.hooks.compute_loss(run.policy, batch)
            if is_written_out(loss.total) or not (parameters and loss.total.requires_grad):
                raise CannotRepeatError("")  # the code itself says what is wrong with a loss without gradients
            found = torch.autograd.grad(loss.total, parameters, allow_unused=True)
            total, (norm, gradient) = loss.total.detach(), _clipped(found, learner.max_grad_norm)
        _check_kept(before, _attributes(run))
        rows = run.algorithm.row_results
        self._learning = [p for p, each in zip(parameters, found, strict=True) if each is not None]
        kept_gradient = torch.zeros_like(gradient)
        self._gradients = list(parts_of(kept_gradient, self._learning))
        alone = learner.plugins_optimizer is None
        self._adam = TracedAdam.of(learner.optimizer, self._learning) if alone else None
        with tape:
            kept_gradient.copy_(gradient)
            if self._adam is not None:
                self._adam.step(gradient, (norm + total).abs() <= torch.finfo(total.dtype).max)
        self._names, self._row_names = list(loss.metrics), list(rows)
        return [norm, total, *loss.metrics.values(), *rows.values()]

    @property
    def is_due(self) -> bool:
        """False while the compiler works beside the training."""
        return self._run.learner.steps >= self.program.first

    def take(self, batch: Batch, filled: Batch) -> None:
        """Take the learner's step."""
        run, learner = self._run, self._run.learner
        schedule = self.program.whole if len(batch) == len(filled) else self.program.filled
        comparison = Comparison(run, batch, self._changed) if schedule.is_due(run) else None
        optimizes, (norm, total, *others) = self._computed(filled)
        metrics = dict(zip(self._names, others, strict=False))
        run.algorithm.row_results = dict(zip(self._row_names, others[len(self._names) :], strict=True))
        if comparison is not None:
            rows = {name: leaf[: len(batch)] for name, leaf in run.algorithm.row_results.items()}
            self._check(
                comparison, results(run, self._learning, self._gradients, norm, total, metrics, rows), optimizes
            )
            schedule.count(run)
        learner.set_gradients(self._learning, self._gradients)
        learner.check_finite(total, norm, metrics, batch.group)
        if optimizes and self._adam is not None:
            self._adam.count()
            learner.steps += 1
        else:
            learner.optimize()

    def _computed(self, batch: Batch) -> tuple[bool, list[Tensor]]:
        """Return whether the parameters were changed, and the outputs."""
        library = self.program.loaded or self._library(batch.objective)
        optimizes = self._adam is not None and self._adam.prepare()
        return optimizes, library([*batch.leaves, *(draw() for draw in self._draws), *self._constants])

    def _library(self, objective: str) -> Library:
        self.program.loaded = library = self.program.compilation.result(lambda: self._run.interrupted)
        name = f"{self._run.algorithm.config.name}{f' ({objective})' if objective else ''}"
        to_stderr(f"note: the updates of {name} are compiled from step {self._run.learner.steps + 1:,} on")
        return library

    def _check(self, comparison: Comparison, found: Results, optimizes: bool) -> None:
        """Raise CannotRepeatError, with all as it was before the step, where the code gives other results."""
        differing = comparison.differing(found)
        if not differing and optimizes and self._adam is not None:
            differing = comparison.optimizes_alike(self._learning, self._gradients, self._adam.changed)
        if differing:
            comparison.undo()
            raise CannotRepeatError(f"the compiled ones give other results for {differing}")


def _clipped(found: Sequence[Tensor | None], limit: float) -> tuple[Tensor, Tensor]:
    """Return the norm of the gradients that were found, shape (), and all of them after clipping, [P]."""
    gradient: Tensor = torch._C._nn.flatten_dense_tensors([each for each in found if each is not None])
    norm = gradient.norm()
    if limit <= 0:
        return norm, gradient
    # Where one is nan, the others stay as they are: an error names those that are not finite.
    return norm, gradient * torch.where(norm.isnan(), 1.0, clip_factor(norm, limit))


def _state_of(optimizer: Optimizer) -> list[Tensor]:
    return optimizer.tensors() if type(optimizer) is Adam else []


def _attributes(run: Run) -> dict[tuple[str, str], Any]:
    """Return what the attributes of the algorithm and of all networks are, but for `row_results`."""
    networks = {
        f"{name}.{place}".strip("."): module
        for name, network in networks_of(run).items()
        for place, module in network.named_modules()
    }
    owners = {"the algorithm": run.algorithm, **networks}
    found = {(owner, name): value for owner, each in owners.items() for name, value in vars(each).items()}
    found.pop(("the algorithm", "row_results"))
    return found


def _check_kept(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any]) -> None:
    """Raise CannotRepeatError where the loss has set an attribute: the compiled one would not."""
    for owner, name in after:
        if (owner, name) not in before or before[owner, name] is not after[owner, name]:
            raise CannotRepeatError(f"compute_loss sets {name!r} of {owner}; what it keeps belongs in `row_results`")
