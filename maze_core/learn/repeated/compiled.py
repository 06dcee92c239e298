"""Steps of the learner that are compiled: on a CPU small operations otherwise take as long as the large ones.

A step becomes the list of torch's operations that its loss and gradients consist of. A compiler joins those that pass
over the same numbers. The step of Adam is among them where the networks are small; otherwise the optimizer takes it
afterwards. A long run compiles in the background, and takes the result into use at a step that is known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from maze_core.base.tolerant_output import to_stderr
from maze_core.learn.closed_form.gradients import is_written_out
from maze_core.learn.learner import clip_factor
from maze_core.learn.optimizers.adam import Adam, parts_of
from maze_core.learn.optimizers.traced_adam import TracedAdam
from maze_core.learn.repeated.machine_code import Compilation, Library, check_compiler
from maze_core.learn.repeated.steps import CannotRepeatError, Step, errors_refuse, tensors_of, undone
from maze_core.learn.repeated.tape import Tape

if TYPE_CHECKING:
    from torch import nn

    from maze_core.data.batch import Batch
    from maze_core.learn.optimizers.adam import Optimizer
    from maze_core.plugins.hookspecs import Run

_SETTLED = 1_000
"""Steps after which a run that may repay compiling begins it: one that fails at once need not wait for it."""
REPAYS = 30_000
"""Steps still to come for which compiling repays: it takes as long as 10,000 to 25,000 steps save."""
_AHEAD = 5_000
"""Steps from the beginning of compiling to the first compiled one, which waits for the compiler if it is not done. The
number is fixed, so that a resumed run goes on like an unbroken one."""
_KINDS = 4
"""Kinds of batches that are compiled."""
_CHECKED = 3
"""Steps of each kind that are compared with those of the code."""
_AGREE = 0.02
"""How far gradients and scalars may differ from those of the code, relative to their norm. A row whose activation is
just at a bend may count on either side of it."""
_ROUNDING = 1e-5
"""How far single numbers that are no gradients may differ: the log-ratio of a policy that has not moved is rounding."""


class CompileRecorder:
    """Compiles steps: from the first on, or beside the training of a run that is long enough."""

    failure = "not compiled"

    def __init__(self, run: Run, *, at_once: bool) -> None:
        self._run, self._at_once = run, at_once
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
        """Begin to compile the step of a batch."""
        check_compiler()
        try:
            return CompiledStep(self._run, batch)
        except CannotRepeatError as error:
            raise self._refusal(str(error)) from error

    def _refusal(self, reason: str) -> CannotRepeatError:
        """Return the error for a run whose steps are not made for it: who has not asked for it need not know."""
        return CannotRepeatError(reason if self._at_once else "")

    def make_room(self, recorded: dict[Hashable, Step]) -> None:
        """Compile no more than a few kinds of batches."""
        if len(recorded) >= _KINDS:
            raise self._refusal(f"its batches have more than {_KINDS} kinds or sizes")


class CompiledStep:
    """The loss of one kind of batch and its gradients as machine code.

    Raises:
        CannotRepeatError: it cannot be compiled. The message is empty where the loss brings gradients of its own.
    """

    def __init__(self, run: Run, batch: Batch) -> None:
        self._run = run
        self._unchecked = {"whole": _CHECKED, "filled": _CHECKED}
        self._changed = [*tensors_of(run), *_state_of(run.learner.optimizer)]
        tape = Tape(batch.leaves)
        with undone(run, self._changed), errors_refuse():
            outputs = self._recorded(tape, batch)
        self._compilation = Compilation(tape.description(outputs))
        self._library: Library | None = None
        self._draws, self._constants = tape.draws, [constant.detach() for constant in tape.constants]

    def _recorded(self, tape: Tape, batch: Batch) -> list[Tensor]:
        """Take the operations of a step down.

        It writes the clipped gradients, and takes the step of Adam if that can be.

        Returns the norm of all gradients before clipping, the loss, its metrics and row results.
        """
        run, learner = self._run, self._run.learner
        parameters, kept = learner.parameters_of(batch.group), _attributes(run)
        run.algorithm.row_results = {}
        with tape:
            loss = run.hooks.compute_loss(run.policy, batch)
            if is_written_out(loss.total):
                raise CannotRepeatError("")
            found = torch.autograd.grad(loss.total, parameters, allow_unused=True)
            total, (norm, gradient) = loss.total.detach(), _clipped(found, learner.max_grad_norm)
        _check_kept(kept, _attributes(run))
        rows = run.algorithm.row_results
        self._learning = [p for p, each in zip(parameters, found, strict=True) if each is not None]
        kept_gradient = torch.zeros_like(gradient)
        self._gradients = list(parts_of(kept_gradient, self._learning))
        self._adam = TracedAdam.of(learner.optimizer, self._learning)
        with tape:
            kept_gradient.copy_(gradient)
            if self._adam is not None:
                self._adam.step(gradient, (norm + total).abs() <= torch.finfo(total.dtype).max)
        self._names, self._row_names = list(loss.metrics), list(rows)
        return [norm, total, *loss.metrics.values(), *rows.values()]

    @property
    def is_due(self) -> bool:
        """False while the compiler works beside the training."""
        return self._run.learner.steps >= (self._run.state.compiled_from or 0)

    def close(self) -> None:
        """End the compiler."""
        self._compilation.close()

    def take(self, batch: Batch, filled: Batch) -> None:
        """Take the learner's step."""
        which = "whole" if len(batch) == len(filled) else "filled"
        if self._unchecked[which]:
            self._check(batch, filled)
            self._unchecked[which] -= 1
        learner = self._run.learner
        optimizes, (norm, total, *others) = self._computed(filled)
        learner.set_gradients(self._learning, self._gradients)
        metrics = dict(zip(self._names, others, strict=False))
        self._run.algorithm.row_results = dict(zip(self._row_names, others[len(self._names) :], strict=True))
        learner.check_finite(total, norm, metrics, batch.group)
        if optimizes and self._adam is not None:
            self._adam.count()
            learner.steps += 1
        else:
            learner.optimize()

    def _computed(self, batch: Batch) -> tuple[bool, list[Tensor]]:
        """Return whether the parameters were changed, and the outputs."""
        if self._library is None:
            self._library = self._compilation.result()
            step, objective = self._run.learner.steps + 1, f" ({batch.objective})" if batch.objective else ""
            name = f"{self._run.algorithm.config.name}{objective}"
            to_stderr(f"note: the updates of {name} are compiled from step {step:,} on")
        optimizes = self._adam is not None and self._adam.prepare()
        return optimizes, self._library([*batch.leaves, *(draw() for draw in self._draws), *self._constants])

    def _check(self, batch: Batch, filled: Batch) -> None:
        """Raise CannotRepeatError where the code gives other results for the batch, or leaves other buffers."""
        run, learner = self._run, self._run.learner
        learning = {id(parameter) for parameter in self._learning}
        still = [tensor for tensor in tensors_of(run) if id(tensor) not in learning]
        with undone(run, self._changed):
            loss = run.hooks.compute_loss(run.policy, batch)
            loss, gradients, norm = learner.differentiated(loss, batch.group, batch.objective)
            learner.clip(gradients, norm)
            rows = run.algorithm.row_results.values()
            others = [norm, loss.total, *loss.metrics.values(), *rows, *still]
            wanted = [each.detach().clone() for each in (*gradients, *others)]
        rounding = [0.0] * len(gradients) + [_ROUNDING] * len(others)
        with undone(run, self._changed):
            optimizes, results = self._computed(filled)
            first = len(results) - len(self._row_names)
            found = [*self._gradients, *results[:first], *(rows[: len(batch)] for rows in results[first:]), *still]
            same = len(found) == len(wanted) and all(map(_agree, found, wanted, rounding))
            if optimizes and self._adam is not None:
                self._adam.count()
            changed = [tensor.detach().clone() for tensor in self._optimized()]
        if not same or (optimizes and not self._optimizes_alike(changed)):
            raise CannotRepeatError("the compiled ones give other results")

    def _optimized(self) -> list[Tensor]:
        return [*self._learning, *_state_of(self._run.learner.optimizer)]

    def _optimizes_alike(self, found: list[Tensor]) -> bool:
        """Return True if the optimizer makes the same of what a step changes, given the same gradients."""
        learner, optimized = self._run.learner, self._optimized()
        before = [tensor.detach().clone() for tensor in optimized]
        with undone(self._run, self._changed):
            learner.set_gradients(self._learning, self._gradients)
            learner.optimizer.step()
            changes = [tensor.detach() - old for tensor, old in zip(optimized, before, strict=True)]
        return all(_agree(ours - old, change, 0.0) for ours, old, change in zip(found, before, changes, strict=True))


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
        for name, network in _networks(run).items()
        for place, module in network.named_modules()
    }
    owners = {"the algorithm": run.algorithm, **networks}
    found = {(owner, name): value for owner, each in owners.items() for name, value in vars(each).items()}
    found.pop(("the algorithm", "row_results"))
    return found


def _networks(run: Run) -> dict[str, nn.Module]:
    return {"policy": run.policy, **run.modules}


def _check_kept(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any]) -> None:
    """Raise CannotRepeatError where the loss has set an attribute: the compiled one would not."""
    for owner, name in after:
        if (owner, name) not in before or before[owner, name] is not after[owner, name]:
            raise CannotRepeatError(f"compute_loss sets {name!r} of {owner}; what it keeps belongs in `row_results`")


def _agree(found: Tensor, wanted: Tensor, rounding: float) -> bool:
    """Whether two results are the same; `rounding`: by how much their numbers may differ in any case."""
    if found.shape != wanted.shape:
        return False
    difference, size = (found.double() - wanted.double()).norm(), wanted.double().norm()
    return not size.isfinite() or bool(difference <= _AGREE * size + 1e-6 + rounding * wanted.numel() ** 0.5)
