"""The checks of algorithms: reproducible, resumable, correct with every declared space, and able to learn."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import torch
from maze_fork.directory import fork_directory

from maze_core import ConfigError
from maze_core.run import api
from maze_devkit import abilities, altered, called_hooks, compiled_steps, defaults, elsewhere, row_weights, runs
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.learning import learns
from maze_devkit.probes import Ending
from maze_devkit.process import left_alone
from maze_devkit.rehearsal import rehearse
from maze_devkit.spaces import ACTIONS, OBSERVATIONS, environment
from maze_devkit.subject import Subject, blamed, refusal

_SIX = {"algorithm.n_epochs": 6}
_VECTOR = "a vector"
"""The kind of observation that everything takes."""


def _trains(subject: Subject) -> None:
    run = subject.bench.once(subject, rehearse)
    if run.error is not None:
        raise run.error
    wrong = [name for name, tensor in run.learned.items() if not tensor.isfinite().all()]
    if wrong:
        raise Failed(f"after {run.updates} updates {', '.join(wrong[:3])} is not finite")
    if run.updates < 1:
        raise Failed("a run of two epochs takes no update")
    if run.proves_nothing:
        raise Failed(run.proves_nothing)


def _insist_on_learning(subject: Subject) -> None:
    """Raise Failed for an algorithm whose runs are equal because they do nothing."""
    if reason := subject.bench.once(subject, rehearse).succeeded().proves_nothing:
        raise Failed(f"it proves nothing: {reason}")


def _deterministic(subject: Subject) -> None:
    _insist_on_learning(subject)
    first = subject.bench.once(subject, rehearse).succeeded().learned
    second = rehearse(subject).succeeded().learned
    if names := runs.differing(first, second):
        raise Failed(f"two runs with the same seed differ in {len(names)} of {len(first)} tensors, such as {names[0]}")


class _Halves(NamedTuple):
    """What a run of six epochs learned, one that stopped after three, and a fork of that one."""

    whole: Mapping[str, torch.Tensor]
    split: Path
    fork: Path


def _halves(subject: Subject) -> _Halves:
    env, split = runs.walk(subject), subject.folder / "split"
    whole = runs.train(subject, env, subject.folder / "whole", _SIX)
    runs.train(subject, env, split, _SIX, until=3)  # schedules see the same end
    return _Halves(whole, split, fork_directory(split, subject.folder / "fork"))


def _rest(subject: Subject) -> Mapping[str, torch.Tensor]:
    return elsewhere.resume(subject, subject.bench.once(subject, _halves).split, 6)


def _resumes(subject: Subject) -> None:
    _insist_on_learning(subject)
    halves, rest = subject.bench.once(subject, _halves), subject.bench.once(subject, _rest)
    _insist_on_equality(subject, halves.whole, rest, "3 epochs plus 3 more in a new process")


def _forks(subject: Subject) -> None:
    _insist_on_learning(subject)
    halves = subject.bench.once(subject, _halves)
    try:
        as_resumed = not runs.differing(halves.whole, subject.bench.once(subject, _rest))
    except Failed:
        as_resumed = False
    if not as_resumed:
        raise NotApplicable("its runs do not resume, see the check `resumes`")
    rest = elsewhere.resume(subject, halves.fork, 6)
    _insist_on_equality(subject, halves.whole, rest, "3 epochs plus 3 more in the folder of a fork")


def _insist_on_equality(
    subject: Subject, whole: Mapping[str, torch.Tensor], rest: Mapping[str, torch.Tensor], how: str
) -> None:
    """Raise Failed where two ways to six epochs end with other tensors."""
    if names := runs.differing(whole, rest):
        again = runs.train(subject, runs.walk(subject), subject.folder / "again", _SIX)
        _insist_on_determinism(whole, again)
        differ = f"differ in {len(names)} of {len(whole)} tensors, such as {names[0]}"
        raise Failed(f"6 epochs in one process, and {how}, {differ}")


def _insist_on_determinism(first: Mapping[str, torch.Tensor], again: Mapping[str, torch.Tensor]) -> None:
    """Skip the check for an algorithm whose runs differ anyway."""
    if runs.differing(first, again):
        raise NotApplicable("two runs with the same seed differ, see the check `deterministic`")


def _gradients(subject: Subject) -> None:
    run = subject.bench.once(subject, rehearse).succeeded()
    if not run.batches:
        raise NotApplicable("it learns without batches")
    if run.left_out:
        raise Failed(f"the optimizer does not have the parameters {', '.join(run.left_out[:4])} of the policy")
    if run.idle:
        raise Failed(f"the loss of {run.batches} batches gives no gradient to {', '.join(run.idle[:4])}")


def _space_pairs(declared: Collection[type[Any]]) -> Iterator[tuple[str, str, bool]]:
    """Yield observations and actions by description, with True if the algorithm declares to take the actions.

    Every kind of observation and every kind of action occurs. Observations go with actions in turn: codecs and
    networks treat the ones without regard to the others.
    """
    claimed = [name for name, (kinds, _) in ACTIONS.items() if set(kinds) <= set(declared)]
    for number, (seen, done) in enumerate(zip_longest(OBSERVATIONS, claimed)):
        yield seen or _VECTOR, done or claimed[number % len(claimed)], True
    for done in ACTIONS.keys() - claimed:
        yield _VECTOR, done, False


def _spaces(subject: Subject) -> None:
    pairs = _space_pairs(subject.plugin.action_spaces)
    for number, (seen, done, claimed) in enumerate(pairs):
        env = environment(OBSERVATIONS[seen], ACTIONS[done][1])
        title = f"observations of {seen} and actions of {done}"
        try:
            with runs.started(subject, env, subject.folder / str(number), {"algorithm.n_epochs": 1}) as run:
                if claimed:
                    api.carry_out(run)
        except ConfigError as error:
            if claimed:
                raise Failed(f"it declares support for {title}, but refuses them: {refusal(error)}") from error
        except Exception as error:
            if number == 0:
                raise NotApplicable(runs.BROKEN_RUN) from error
            raise Failed(f"{title}: {blamed(subject, error)}") from error
        else:
            if not claimed:
                raise Failed(f"it does not declare support for {title}, but does not refuse them with a ConfigError")


def _truncation(subject: Subject) -> None:
    def after(truncate: bool, last: float, folder: str) -> Mapping[str, torch.Tensor]:
        env = functools.partial(Ending, truncate, last, runs.continuous(subject))
        return runs.train(subject, env, subject.folder / folder, {"algorithm.n_epochs": 1})

    ended = after(False, 1.0, "ended")
    if not ended["environment steps"]:
        raise NotApplicable("it steps no environment")
    if runs.differing(ended, after(False, -1.0, "ended elsewhere")):
        _insist_on_determinism(ended, after(False, 1.0, "ended again"))
        raise Failed("the result depends on the observation after an episode's end: it bootstraps at termination")
    if not subject.bench.once(subject, rehearse).succeeded().values:
        raise NotApplicable("it learns no values to bootstrap from")
    if not runs.differing(after(True, 1.0, "cut"), after(True, -1.0, "cut elsewhere")):
        raise Failed("the result does not depend on the observation at a time limit: it does not bootstrap there")


def _synchronisation(subject: Subject) -> None:
    run = subject.bench.once(subject, rehearse).succeeded()
    if not run.batches:
        raise NotApplicable("it learns without batches")
    if getattr(subject.plugin, "needs_actors", False):
        raise NotApplicable("the rows of several actors are sorted by their networks, which waits for the device")
    if run.waits:
        raise Failed(f"compute_loss calls {', '.join(run.waits)}")


def _global_state(subject: Subject) -> None:
    with left_alone("a run"):
        runs.train(subject, runs.walk(subject), subject.folder / "run")


CHECKS = (
    defaults.CHECK,
    Check(
        "trains",
        "A small run yields batches, moves parameters, and finishes with finite losses and parameters.",
        "An algorithm that does not train cannot be checked any further.",
        "Read the error. If a number is not finite, look for a logarithm or a division without a bound, or for a "
        "mean of no rows. If it yields no batch, `trial` may need a smaller `n_rollout_steps` or another `env`.",
        _trains,
    ),
    Check(
        "deterministic",
        "Two runs with the same seed end with bit-equal parameters.",
        "Results that cannot be repeated cannot be compared or debugged.",
        "Draw every random number from `sequence(run.seed, Purpose.…)`; do not use global generators, clocks or "
        "the order of sets.",
        _deterministic,
    ),
    Check(
        "resumes",
        "Six epochs give bit-equal results to three epochs plus three more after reopening the run in a new process.",
        "Runs are interrupted; a resumed run must give the same result.",
        "Put into `state` what decides the next batch: collectors, generators, buffers, counters; name further "
        "networks in `modules`. Restore all of it in `load_state`, and keep no state in module variables.",
        _resumes,
    ),
    Check(
        "forks",
        "A fork of a run, in a folder of its own, ends bit-equal to the run itself.",
        "`maze fork` and the searchers that build on it begin many runs with the state of one.",
        "Keep in the checkpoint what decides the next batch, not in files of your own in the run's folder: a fork has "
        "what the core saves, and the rows of a `ReplayCollector`.",
        _forks,
    ),
    altered.OF_ALGORITHMS,
    Check(
        "gradients",
        "The optimizer has every trainable parameter of the policy and of `modules()`, and each gets a gradient.",
        "A part that does not learn keeps its random weights, and nothing reports it.",
        "Use it in the loss, freeze it with `requires_grad_(False)`, or choose a model without it, such as "
        '`defaults = {"model": {"critic": "none"}}`.',
        _gradients,
    ),
    Check(
        "spaces",
        "Every action space in the class attribute `action_spaces` works, as do all observations; others are refused "
        "by a ConfigError before the first step.",
        "Users have environments of every kind; a crash in the first update does not help them.",
        "Leave spaces to the policy's distribution, or remove unsupported spaces from `action_spaces`: the core then "
        "refuses them.",
        _spaces,
    ),
    Check(
        "truncation",
        "Values are bootstrapped at a time limit and not at an episode's end.",
        "Treating truncation as termination underestimates the value of the states before a time limit.",
        "Use `advantage_rows`, or zero the value at `terminated` only and use the value of the final observation at "
        "`truncated`.",
        _truncation,
    ),
    Check(
        "learns",
        "It learns a simple task (answer one of four lights) in a few thousand steps.",
        "An algorithm can run, log and save without learning.",
        "Look for a sign, a detached tensor or misaligned rows. If the defaults are for larger problems, set "
        "smaller ones in `conformance`.",
        learns,
    ),
    *abilities.CHECKS,
    *row_weights.CHECKS,
    called_hooks.CHECK,
    *compiled_steps.CHECKS,
    Check(
        "host_synchronisation",
        "`compute_loss` calls nothing that waits for the device: `item`, `tolist`, `numpy`, `cpu`, `bool`, `float`.",
        "On a GPU each such call waits for all queued work; a few of them halve the speed.",
        "Compute with tensors, and return values to log as detached scalars in `Loss.metrics`.",
        _synchronisation,
    ),
    Check(
        "global_state",
        "A run leaves random states, threads, signal handlers, environment variables and the working directory alone.",
        "Otherwise two runs in one process, or a run and its notebook, affect each other.",
        "Use your own generators; restore what you must change.",
        _global_state,
        alone=True,
    ),
)
"""The checks of algorithms."""
