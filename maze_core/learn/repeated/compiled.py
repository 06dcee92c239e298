"""Steps of the learner that are compiled: on a CPU small operations otherwise take as long as the large ones.

A step becomes the list of torch's operations that its loss and gradients consist of. A compiler joins those that pass
over the same numbers. The optimizer's step stays that of the learner. A long run compiles in the background, and takes
the result into use at a step that is known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from maze_core.base.tolerant_output import to_stderr
from maze_core.learn.closed_form.gradients import is_written_out
from maze_core.learn.learner import clip_factor, gradient_norm
from maze_core.learn.repeated.machine_code import Compilation, Library, check_compiler
from maze_core.learn.repeated.steps import CannotRepeatError, Step, errors_refuse, tensors_of, undone
from maze_core.learn.repeated.tape import Tape

if TYPE_CHECKING:
    from torch import nn

    from maze_core.data.batch import Batch
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
        tape = Tape(batch.leaves)
        with undone(run, tensors_of(run)), errors_refuse():
            outputs = self._recorded(tape, batch)
        self._compilation = Compilation(tape.description(outputs))
        self._library: Library | None = None
        self._draws, self._constants = tape.draws, [constant.detach() for constant in tape.constants]

    def _recorded(self, tape: Tape, batch: Batch) -> list[Tensor]:
        """Take the operations of a step down.

        Returns clipped gradients, their norm before that, the loss, its metrics and row results.
        """
        run = self._run
        parameters, kept = run.learner.parameters_of(batch.group), _attributes(run)
        run.algorithm.row_results = {}
        with tape:
            loss = run.hooks.compute_loss(run.policy, batch)
            if is_written_out(loss.total):
                raise CannotRepeatError("")
            found = torch.autograd.grad(loss.total, parameters, allow_unused=True)
            gradients = [gradient for gradient in found if gradient is not None]
            norm, total = gradient_norm(gradients), loss.total.detach()
            if run.learner.max_grad_norm > 0:
                # Where one is nan, the others stay as they are: an error names those that are not finite.
                factor = torch.where(norm.isnan(), 1.0, clip_factor(norm, run.learner.max_grad_norm))
                gradients = [gradient * factor for gradient in gradients]
        _check_kept(kept, _attributes(run))
        rows = run.algorithm.row_results
        self._learning = [p for p, gradient in zip(parameters, found, strict=True) if gradient is not None]
        self._names, self._row_names = list(loss.metrics), list(rows)
        return [*gradients, norm, total, *loss.metrics.values(), *rows.values()]

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
        learner, count = self._run.learner, len(self._learning)
        results = self._computed(filled)
        gradients, (norm, total), others = results[:count], results[count : count + 2], results[count + 2 :]
        learner.set_gradients(self._learning, gradients)
        metrics = dict(zip(self._names, others, strict=False))
        self._run.algorithm.row_results = dict(zip(self._row_names, others[len(self._names) :], strict=True))
        learner.check_finite(total, norm, metrics, batch.group)
        learner.optimize()

    def _computed(self, batch: Batch) -> list[Tensor]:
        if self._library is None:
            self._library = self._compilation.result()
            step, objective = self._run.learner.steps + 1, f" ({batch.objective})" if batch.objective else ""
            name = f"{self._run.algorithm.config.name}{objective}"
            to_stderr(f"note: the updates of {name} are compiled from step {step:,} on")
        return self._library([*batch.leaves, *(draw() for draw in self._draws), *self._constants])

    def _check(self, batch: Batch, filled: Batch) -> None:
        """Raise CannotRepeatError where the code gives other results for the batch, or leaves other buffers."""
        run, networks = self._run, tensors_of(self._run)
        with undone(run, networks):
            loss = run.hooks.compute_loss(run.policy, batch)
            loss, gradients, norm = run.learner.differentiated(loss, batch.group, batch.objective)
            run.learner.clip(gradients, norm)
            rows = run.algorithm.row_results.values()
            others = [norm, loss.total, *loss.metrics.values(), *rows, *networks]
            wanted = [each.detach().clone() for each in (*gradients, *others)]
        rounding = [0.0] * len(gradients) + [_ROUNDING] * len(others)
        with undone(run, networks):
            results = self._computed(filled)
            first = len(results) - len(self._row_names)
            found = [*results[:first], *(rows[: len(batch)] for rows in results[first:]), *networks]
            if len(found) != len(wanted) or not all(map(_agree, found, wanted, rounding)):
                raise CannotRepeatError("the compiled ones give other results")


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
