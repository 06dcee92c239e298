"""The checks of memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from maze_core import Sequences, TensorTree
from maze_core.base.process_state import isolated_rng
from maze_core.models.memory import Memory
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.process import left_alone
from maze_devkit.subject import FEATURES, Subject

_STREAMS = 3
_LENGTHS = ((5, 1, 3), (2, 7, 7), (4, 1, 40), (1, 1, 1))
"""Rows of the sequences, batch by batch."""
_CLOSE = 1e-5


def _memory(subject: Subject, seed: int = 1) -> Memory:
    with isolated_rng(seed):
        memory: Memory = subject.construct()
    return memory.eval()


def _after(subject: Subject, *before: Callable[[Subject], None]) -> None:
    """Raise NotApplicable where a memory fails checks without which this one says nothing."""
    for check in before:
        try:
            check(subject)
        except Exception as error:
            raise NotApplicable(f"see the check `{check.__name__.removeprefix('_')}`") from error


def _features(*shape: int) -> Tensor:
    return torch.randn(*shape, FEATURES, generator=torch.Generator().manual_seed(3))


def _begun(memory: Memory, rows: int) -> TensorTree:
    """Return a state in the middle of an episode: that after three steps."""
    state = memory.initial_state(rows)
    with torch.no_grad():
        for features in _features(3, rows):
            state = memory.step(features, state)[1]
    return state


def _one_by_one(memory: Memory, features: Tensor, lengths: tuple[int, ...], state: TensorTree) -> tuple[Any, Any]:
    """Return what `after` should: every sequence alone, step by step."""
    rows, ends = [], []
    for number, own in enumerate(torch.split(features, list(lengths))):
        current = {key: leaf[number : number + 1] for key, leaf in state.items()}
        for row in own:
            found, current = memory.step(row.unsqueeze(0), current)
            rows.append(found)
        ends.append(current)
    return torch.cat(rows), {key: torch.cat([end[key] for end in ends]) for key in state}


def _compare(found: Tensor, wanted: Tensor, what: str) -> None:
    """Raise Failed where two tensors differ by more than rounding."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        kinds = [f"{tuple(leaf.shape)} {leaf.dtype}" for leaf in (found, wanted)]
        raise Failed(f"{what} has shape and dtype {kinds[0]}, not {kinds[1]}")
    if not torch.allclose(found.double(), wanted.double(), atol=_CLOSE, rtol=_CLOSE):
        raise Failed(f"{what} differs by {float((found.double() - wanted.double()).abs().max()):.2g}")


def _compare_trees(found: TensorTree, wanted: TensorTree, what: str) -> None:
    if found.keys() != wanted.keys():
        raise Failed(f"{what} has the leaves {sorted(found)}, not {sorted(wanted)}")
    for key, leaf in wanted.items():
        _compare(found[key], leaf, f"{what}, leaf {key!r},")


def _state(subject: Subject) -> None:
    memory = _memory(subject)
    width = getattr(memory, "out_features", None)
    if not isinstance(width, int) or width < 1:
        raise Failed("it has no integer `out_features`")
    for rows in (1, _STREAMS):
        state = memory.initial_state(rows)
        if any(leaf.shape[:1] != (rows,) for leaf in state.values()):
            raise Failed(f"the initial state of {rows} rows has leaves of {[tuple(x.shape) for x in state.values()]}")
        _compare_trees({k: x[:1] for k, x in state.items()}, memory.initial_state(1), "the initial state of one row")
        kept = {key: leaf.clone() for key, leaf in state.items()}
        with torch.no_grad():
            features, after = memory.step(_features(rows), state)
        if tuple(features.shape) != (rows, width):
            raise Failed(f"`step` returns features {tuple(features.shape)} for {rows} rows, not {(rows, width)}")
        for key in state:
            if key not in after or after[key].shape != state[key].shape or after[key].dtype != state[key].dtype:
                raise Failed(f"after a step the leaf {key!r} of the state is missing, or of another shape or dtype")
        if any(not torch.equal(kept[key], leaf) for key, leaf in state.items()):
            raise Failed("`step` changes the state that it is given, which the core still needs")


def _sequences(subject: Subject) -> None:
    _after(subject, _state, _forgets, _rows)
    memory = _memory(subject)
    for lengths in _LENGTHS:
        features, state = _features(sum(lengths)), _begun(memory, len(lengths))
        with torch.no_grad():
            wanted, ends = _one_by_one(memory, features, lengths, state)
            sequences = Sequences(np.array(lengths), state)
            found, after = memory.after(features, sequences, state)
            unrolled = memory.unroll(features, sequences, state)
        title = f"sequences of {', '.join(map(str, lengths))} rows"
        _compare(found, wanted, f"{title}: what `after` returns")
        _compare_trees(after, ends, f"{title}: the state of `after`")
        _compare(unrolled, wanted, f"{title}: what `unroll` returns")


def _forgets(subject: Subject) -> None:
    _after(subject, _state)
    memory, rows = _memory(subject), _features(4, _STREAMS)

    def played() -> Tensor:
        state, found = memory.initial_state(_STREAMS), []
        for row in rows:
            features, state = memory.step(row, state)
            found.append(features)
        return torch.stack(found)

    with torch.no_grad():
        first, begun = played(), memory.initial_state(_STREAMS)
        _begun(memory, _STREAMS)
        lengths = np.array([4] * _STREAMS)
        memory.unroll(_features(4 * _STREAMS) * 9, Sequences(lengths, begun), begun)
        if not torch.equal(first, played()):
            raise Failed("an episode depends on those before it: something is kept outside of the state")


def _rows(subject: Subject) -> None:
    _after(subject, _state, _forgets)
    memory, (length, changed) = _memory(subject), (4, 1)
    features, state = _features(_STREAMS, length), _begun(memory, _STREAMS)
    other = features.clone()
    other[changed] += 1
    begun = {key: leaf.clone() for key, leaf in state.items()}
    for key, leaf in memory.initial_state(1).items():
        begun[key][changed] = leaf[0]
    lengths = np.array([length] * _STREAMS)
    rest = [row for row in range(_STREAMS) if row != changed]
    with torch.no_grad():
        one, after = memory.after(features.flatten(0, 1), Sequences(lengths, state), state)
        two, later = memory.after(other.flatten(0, 1), Sequences(lengths, begun), begun)
        single, next_state = memory.step(features[:, 0], state)
        changed_one, changed_state = memory.step(other[:, 0], begun)
    shape = (_STREAMS, length, -1)
    _compare(two.reshape(shape)[rest], one.reshape(shape)[rest], "what a sequence gives when another one changes")
    _compare(changed_one[rest], single[rest], "what a row gives when another one changes")
    for key in state:
        _compare(later[key][rest], after[key][rest], f"the state {key!r} of a sequence when another one changes")
        _compare(changed_state[key][rest], next_state[key][rest], f"the state {key!r} of a row when another changes")


def _gradients(subject: Subject) -> None:
    _after(subject, _state, _forgets, _rows, _sequences)
    memory, length = _memory(subject), 6
    features = _features(length * _STREAMS).requires_grad_()
    state = memory.initial_state(_STREAMS)
    found = memory.unroll(features, Sequences(np.array([length] * _STREAMS), state), state)
    named = [(name, p) for name, p in memory.named_parameters() if p.requires_grad]
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(5))
    grads = torch.autograd.grad((found * weights).sum(), [p for _, p in named], retain_graph=True, allow_unused=True)
    idle = [name for (name, _), grad in zip(named, grads, strict=True) if grad is None]
    if idle:
        raise Failed(f"sequences give no gradient to {', '.join(idle[:4])}")
    (first,) = torch.autograd.grad((found[length - 1] * weights[0]).sum(), features, retain_graph=True)
    if not bool(first[:length].abs().sum(-1).gt(0).all()):
        raise Failed("the last row of a sequence gives no gradient to earlier ones: nothing is learned through time")
    if bool(first[length:].abs().sum() > 0):
        raise Failed("a row gives a gradient to another sequence")
    wanted, _ = _one_by_one(memory, features, (length,) * _STREAMS, state)
    stepped = torch.autograd.grad((wanted * weights).sum(), [p for _, p in named], allow_unused=True)
    for (name, _), grad, other in zip(named, grads, stepped, strict=True):
        size = max(1.0, float(other.abs().max())) if other is not None else 1.0
        if other is None or not torch.allclose(grad, other, atol=10 * _CLOSE * size, rtol=1e-3):
            raise Failed(f"the gradient of {name} through a sequence is not that through its steps")


def _populations(subject: Subject) -> None:
    _after(subject, _state, _forgets)
    memory = _memory(subject)
    parameters = {name: p.detach() for name, p in memory.named_parameters()}
    members = {name: torch.stack([p, p * 0.5]) for name, p in parameters.items()}
    features, state = _features(2), _begun(memory, 2)

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = memory

        def forward(self, row: Tensor, begun: TensorTree) -> tuple[Tensor, TensorTree]:
            return memory.step(row.unsqueeze(0), {key: leaf.unsqueeze(0) for key, leaf in begun.items()})

    step = Step()

    def member(own: TensorTree, row: Tensor, begun: TensorTree) -> tuple[Tensor, TensorTree]:
        named = {f"memory.{name}": leaf for name, leaf in own.items()}
        result: tuple[Tensor, TensorTree] = functional_call(step, named, (row, begun))
        return result

    with torch.no_grad():
        try:
            found, _ = vmap(member)(members, features, state)
        except Exception as error:
            raise Failed(f"`step` cannot be vectorised over parameters: {error}") from error
        for number in range(2):
            own = {name: leaf[number] for name, leaf in members.items()}
            row = {key: leaf[number] for key, leaf in state.items()}
            _compare(found[number], member(own, features[number], row)[0], "what a member of a population gives")


def _deterministic(subject: Subject) -> None:
    first, second = _memory(subject).state_dict(), _memory(subject).state_dict()
    if first.keys() != second.keys() or not all(torch.equal(first[name], second[name]) for name in first):
        raise Failed("built twice with the same seed, the parameters differ")


def _global_state(subject: Subject) -> None:
    with left_alone("building and using a memory"):
        memory = _memory(subject)
        try:
            state = memory.initial_state(1)
            memory.unroll(_features(4), Sequences(np.array([4]), state), state)
        except Exception as error:
            raise NotApplicable("it cannot be used, see the check `state`") from error


CHECKS = (
    Check(
        "state",
        "The state has the rows first; a step keeps its leaves, shapes and dtypes, and leaves the given state alone.",
        "What is remembered is stored row by row, saved and given to workers.",
        "Return a new dict with the leaves of `initial_state`; do not write into the given one.",
        _state,
    ),
    Check(
        "sequences",
        "Whole sequences give what single steps give, also from the middle of an episode, and the same state.",
        "A policy acts step by step and learns from sequences: where they differ it learns about another policy.",
        "Override `after` by the same arithmetic as `step`, or leave it out.",
        _sequences,
    ),
    Check(
        "forgets",
        "From the initial state on, an episode is the same whatever came before.",
        "A run that is resumed, or stepped in workers, would differ.",
        "Keep everything in the state that `step` returns, and nothing in the module.",
        _forgets,
    ),
    Check(
        "rows",
        "A row and its state change nothing for other rows.",
        "Environments would affect each other.",
        "Compute along the features alone; normalise over features, not over rows.",
        _rows,
    ),
    Check(
        "gradients",
        "Sequences give a gradient to every parameter and to every earlier row, equal to that through single steps.",
        "A memory without gradients through time does not learn what to remember.",
        "Do not detach the state within `after` or `unroll`.",
        _gradients,
    ),
    Check(
        "populations",
        "A step can be vectorised over parameters (`torch.func.vmap`).",
        "es acts with all members of a population at once, and exports trace the step.",
        "Use torch's functions alone, nothing in place, and no control flow that depends on values.",
        _populations,
    ),
    Check(
        "deterministic",
        "Built twice with the same torch seed, the parameters are equal.",
        "Otherwise a run cannot be repeated.",
        "Draw parameters from torch's generator, which Maze seeds before it builds.",
        _deterministic,
    ),
    Check(
        "global_state",
        "Building and using it leaves random states, threads, signal handlers, environment variables and the working "
        "directory alone.",
        "Otherwise two runs in one process affect each other.",
        "Restore what you must change.",
        _global_state,
        alone=True,
    ),
)
"""The checks of memories."""
