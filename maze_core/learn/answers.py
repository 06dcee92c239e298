"""Checks what the methods of an algorithm return, where Maze would otherwise fail itself later on."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from torch import nn

from maze_core.base.errors import ConfigError, PluginError
from maze_core.base.metrics import as_number, metric_named
from maze_core.base.terminal_text import kind_of, shown

if TYPE_CHECKING:
    from maze_core.data.batch import Batch, OwnStep
    from maze_core.learn.algorithm import Algorithm
    from maze_core.learn.optimizers import Optimizer
    from maze_core.plugins.config.run import ScoreConfig


def set_up(algorithm: Algorithm, method: Callable[[Any], object], run: Any) -> None:
    """Call a method with the run.

    Raises:
        PluginError: it takes other arguments, or is asynchronous.
    """
    try:
        result = method(run)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # none of its lines ran
            raise _refused(algorithm, f"its {method.__name__} cannot be called with the run: {error}") from error
        raise
    if inspect.iscoroutine(result):
        result.close()
        raise _refused(algorithm, f"its {method.__name__} is asynchronous, which nobody waits for")


def batches(algorithm: Algorithm) -> Iterable[Batch | OwnStep]:
    """Return what `batches()` returns."""
    found: Any = algorithm.batches()
    if not isinstance(found, Iterable):
        raise _refused(algorithm, f"batches returned {kind_of(found)} instead of batches; does it lack a `yield`?")
    return found


def epoch_metrics(algorithm: Algorithm) -> dict[str, float]:
    """Return the metrics as floats."""
    found: Any = algorithm.epoch_metrics()
    if not isinstance(found, dict):
        raise _refused(algorithm, f"epoch_metrics returned {kind_of(found)} instead of a dict")
    return {_name(algorithm, name): _number(algorithm, f"epoch_metrics, {name!r}", x) for name, x in found.items()}


def score(algorithm: Algorithm, metrics: dict[str, float], asked: ScoreConfig | None, *, first: bool) -> float:
    """Return the score as a float: higher is better. `first`: there was none before, so the metric has to be there.

    Raises:
        ConfigError: no epoch has the metric that is asked for.
    """
    if asked is None:
        return _number(algorithm, "score", algorithm.score(metrics))
    found = metric_named(metrics, asked.metric)
    # An event without any value has no mean yet, but other statistics.
    event = f"{asked.metric.rpartition('/')[0]}/" if "/event/" in asked.metric else "/"
    if found is None and first and not any(name.startswith(event) for name in metrics):
        from maze_core.plugins.config.explain import nearest  # imports pydantic

        hint = nearest(asked.metric, sorted(name for name in metrics if "/" in name))
        raise ConfigError(f"no epoch has the metric {shown(asked.metric)}", "score.metric", hint)
    return math.nan if found is None else found if asked.maximize else -found


def lr_factor(algorithm: Algorithm, fraction_done: float) -> float | None:
    """Return the factor of the learning rates, finite and at least 0; None: they stay."""
    found = algorithm.lr_factor(fraction_done)
    if found is None:
        return None
    factor = found if type(found) is float else _number(algorithm, "lr_factor", found)
    if not 0 <= factor < math.inf:
        raise _refused(algorithm, f"lr_factor returned {factor}, not a finite factor of at least 0")
    return factor


def modules(algorithm: Algorithm) -> dict[str, nn.Module]:
    """Return the networks by name."""
    found: Any = algorithm.modules()
    if not isinstance(found, dict) or not all(isinstance(each, nn.Module) for each in found.values()):
        raise _refused(algorithm, f"modules returned {kind_of(found)} instead of a dict of torch.nn.Module by name")
    return found


def optimizer(algorithm: Algorithm, policy: Any) -> Optimizer:
    """Return the optimizer."""
    modules(algorithm)
    found: Any = algorithm.build_optimizer(policy)
    if not all(hasattr(found, name) for name in ("param_groups", "step", "state_dict", "load_state_dict")):
        raise _refused(algorithm, f"build_optimizer returned {kind_of(found)} instead of an optimizer")
    asked = inspect.signature(found.step).parameters.values()
    if any(each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in asked):
        raise _refused(
            algorithm, f"the optimizer {type(found).__name__} asks for losses in its step, which Maze has not"
        )
    built: Optimizer = found
    return built


def _name(algorithm: Algorithm, name: object) -> str:
    if not isinstance(name, str):
        raise _refused(algorithm, f"epoch_metrics has the name {shown(name)}, which is no string")
    return name


def _number(algorithm: Algorithm, what: str, value: Any) -> float:
    try:
        return as_number(value)
    except TypeError:
        raise _refused(algorithm, f"{what} is {shown(value)}, not a number") from None


def _refused(algorithm: Algorithm, problem: str) -> PluginError:
    return PluginError(f"algorithm plugin {algorithm.config.name!r}: {problem}")
