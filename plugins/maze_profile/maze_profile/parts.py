"""Measures the parts of a run, by timing the calls at which one part hands over to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import product
from typing import TYPE_CHECKING, Any

from maze_compile.machine_code import Compilation
from maze_local.pooled_envs import PooledVectorEnv
from maze_local.process_pool import ProcessPool
from maze_local.queued_pool import QueuedPool
from maze_onpolicy import ResidentSampler
from maze_onpolicy.collect.at_once import AtOnce

from maze_core import NetworkAgent
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.pools.serial import SerialPool
from maze_core.envs.interfaces import INTERFACES
from maze_core.envs.serial import SerialVectorEnv
from maze_core.plugins.extensions import installed
from maze_core.run.episodes.run_evaluation import FINAL_EVALUATION

if TYPE_CHECKING:
    from maze_core import Run
    from maze_profile.stopwatch import Stopwatch

_COMPILING = "compiling"
PARTS = {
    "environment": "steps and resets of the training environments; acting, too, where rollouts are compiled",
    "acting": "choosing actions",
    "batches": "storing steps, advantages, sampling and shuffling batches",
    "loss": "computing losses",
    "optimizer": "backward pass and optimizer; losses, too, where they are recorded or compiled",
    _COMPILING: "waiting for the compiler of updates, once for each kind of batch",
    "workers": "tasks of workers, and waiting for them",
    "evaluation": "evaluations",
    "checkpoints": "writing checkpoints",
    "rest": "all else",
}
"""Each part, and what it contains."""
_ENVIRONMENTS = (SerialVectorEnv, PooledVectorEnv)
_CALLS: list[tuple[Any, str, str]] = [
    *((owner, name, "environment") for owner in _ENVIRONMENTS for name in ("step", "reset")),
    (ResidentSampler, "step", "environment"),
    (AtOnce, "fill", "environment"),
    (Compilation, "result", _COMPILING),
    *((owner, "act", "acting") for owner in (NetworkAgent, RuleAgent, ResidentSampler)),
    *((owner, name, "workers") for owner in (SerialPool, QueuedPool) for name in ("submit", "submit_each", "collect")),
    *((owner, "share", "workers") for owner in (SerialPool, ProcessPool)),
]
"""The class, the name and the part of what all runs call."""


def training_seconds(seconds: Mapping[str, float]) -> float:
    """Return the seconds of all parts but compiling, which is no training."""
    return sum(seconds.values()) - seconds.get(_COMPILING, 0.0)


@contextmanager
def measured(run: Run, watch: Stopwatch) -> Iterator[None]:
    """Measure the parts of a run while it trains in this context; afterwards all is as before.

    The final evaluation is left out: it belongs to no step. One run at a time.
    """
    with ExitStack() as stack:

        def replace(owner: Any, name: str, part: str) -> None:
            _replace(stack, owner, name, _timed(getattr(owner, name), part, watch))

        for owner, name, part in _CALLS:
            replace(owner, name, part)
        adapters = filter(None, (installed(INTERFACES, name) for name in ("agents", "native")))
        for owner, name in product(adapters, ("step", "reset")):
            replace(owner, name, "environment")
        replace(run.hooks, "compute_loss", "loss")
        replace(run.learner, "step", "optimizer")
        replace(run.learner, "take", "optimizer")
        if run.repeated is not None:
            replace(run.repeated, "step", "optimizer")
        replace(run.side_learners, "learn", "optimizer")
        replace(run.learner, "check", "optimizer")
        replace(run.algorithm, "warm_up", "batches")
        replace(run.saving, "store", "checkpoints")
        _replace(stack, run.algorithm, "batches", _timed_batches(run.algorithm.batches, watch))
        _replace(stack, run, "evaluate", _evaluation(run.evaluate, watch))
        yield


def _replace(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute until the stack closes."""
    own = vars(owner).get(name, _MISSING)

    def restore() -> None:
        if own is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, own)

    setattr(owner, name, value)
    stack.callback(restore)


_MISSING = object()


def _timed(call: Callable[..., Any], part: str, watch: Stopwatch) -> Callable[..., Any]:
    @wraps(call)
    def timed(*arguments: Any, **named: Any) -> Any:
        # Where workers step the environments, waiting for them is the time of the environments.
        inside = watch.inside("evaluation") or (part == "workers" and watch.inside("environment"))
        if not watch.running or inside:
            return call(*arguments, **named)
        watch.enter(part)
        try:
            return call(*arguments, **named)
        finally:
            watch.leave()

    return timed


def _timed_batches(batches: Callable[[], Iterator[Any]], watch: Stopwatch) -> Callable[[], Iterator[Any]]:
    def timed() -> Iterator[Any]:
        following = _timed(lambda: next(made, _MISSING), "batches", watch)
        made = iter(batches())
        while (batch := following()) is not _MISSING:
            yield batch

    return timed


def _evaluation(evaluate: Callable[..., dict[str, float]], watch: Stopwatch) -> Callable[..., dict[str, float]]:
    timed = _timed(evaluate, "evaluation", watch)

    def of_an_epoch(number: int, *arguments: Any, **named: Any) -> dict[str, float]:
        result: dict[str, float] = {} if number == FINAL_EVALUATION else timed(number, *arguments, **named)
        return result

    return of_an_epoch
