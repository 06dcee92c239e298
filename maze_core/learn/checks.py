"""Which runs an algorithm can take, and which plugins would have no effect in one that never calls their hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.bundled import packages
from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins import discovery
from maze_core.plugins.members import HOOKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from maze_core.learn.algorithm import Algorithm
    from maze_core.learn.optimizers import Optimizer
    from maze_core.plugins.config.run import RunConfig
    from maze_core.plugins.manager import Hooks
    from maze_core.plugins.members import Member

CHANGING = ("compute_loss", "wrap_agent", "build_planner", "change_rollout", "change_transitions")
"""The hooks with which a plugin changes what is learned, and that not every algorithm calls."""
_WITHIN = "on_evaluation"
NOT_ALWAYS = (*CHANGING, _WITHIN)
"""The hooks that not every algorithm calls."""
_ANSWER = ("algorithm", "compute_loss")
# Of kind and hook: what others wrap, and what an algorithm without a loss has to define.
_INSTEAD = {"change_rollout": "change_transitions", "change_transitions": "change_rollout", _WITHIN: "on_epoch_end"}
_MOST = 8


def check_run(algorithm: Algorithm, config: RunConfig) -> None:
    """Raise ConfigError if an algorithm cannot run with this configuration: what it declares, then its own `check`."""
    critic = getattr(config.model, "critic", None)
    name = algorithm.config.name
    if algorithm.needs_critic and critic == "none":
        raise ConfigError(f"{name} needs a critic", "model.critic", "Next: --set model.critic=separate")
    if algorithm.needs_critic is False and critic not in (None, "none"):
        raise ConfigError(
            f"{name} does not use the model's critic, which would never learn",
            "model.critic",
            "Next: --set model.critic=none",
        )
    sizes = [each for each in ("critic_hidden", "critic_width") if getattr(config.model, each, None) is not None]
    if sizes and critic != "separate":
        way = "leave it out" if algorithm.needs_critic is False else "--set model.critic=separate"
        raise ConfigError("is the size of a critic with layers of its own", f"model.{sizes[0]}", f"Next: {way}")
    if config.score is not None and config.score.metric.startswith("eval/") and not config.evaluation_episodes:
        raise ConfigError("no evaluation gives it, for evaluation.n_episodes is 0", "score.metric")
    check_schedules(config)
    algorithm.check(config)


def check_optimizer(algorithm: Algorithm, optimizer: Optimizer) -> None:
    """Raise PluginError if the optimizer lacks a trainable parameter of the algorithm's `modules()`."""
    optimized = {id(p) for group in optimizer.param_groups for p in group["params"]}
    lacking = [
        f"{module}.{name}"
        for module, network in algorithm.modules().items()
        for name, parameter in network.named_parameters()
        if parameter.requires_grad and id(parameter) not in optimized
    ]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise PluginError(
            f"the optimizer of algorithm plugin {algorithm.config.name!r} lacks {lacking[0]}{more} of modules()\n"
            "Next: add it in build_optimizer, or freeze it with requires_grad_(False)."
        )


def check_memory_of(policy: nn.Module, algorithm: Algorithm) -> None:
    """Raise ConfigError if the policy remembers and the algorithm would train it without its memory."""
    from maze_core.models.memory import remembers  # imports torch, which commands that list plugins do without

    if remembers(policy) and not (algorithm.supports_memory or algorithm.brings_memory):
        raise ConfigError(
            f"{algorithm.config.name} does not train policies with memory",
            "model.memory",
            "Next: --set model.memory=none, or an algorithm that does, such as ppo",
        )


def check_schedules(config: RunConfig) -> None:
    """Raise ConfigError if a schedule needs the run's end and the run has none."""
    fields = type(config.algorithm).model_fields
    for name, value in config.algorithm:
        over_run = getattr(value, "over", "") == "run" and value != fields[name].default
        if (over_run or (name == "lr_schedule" and value == "linear")) and not (
            config.steps or config.algorithm.n_epochs
        ):
            kind = getattr(value, "schedule", value)
            problem = f"a {kind} schedule needs to know when the run ends"
            raise ConfigError(problem, f"algorithm.{name}", "Next: --steps or --epochs")


def called(hooks: Hooks, algorithm: Algorithm) -> set[str]:
    """Return the hooks that the algorithm calls, of those that not every run does. It has been set up."""
    said = ("compute_loss", _WITHIN) if algorithm.calls is None else algorithm.calls
    return hooks.announced | {hook for hook in said if hook not in CHANGING[1:]}


def check_called(hooks: Hooks, algorithm: Algorithm) -> list[str]:
    """Return notes on plugins that do something else than they would with another algorithm.

    Raises:
        ConfigError: a plugin changes what is learned by hooks alone of which none is called, or wraps an agent that
            does not act, or observes nothing that happens.
    """
    notes, there = [], called(hooks, algorithm)
    for each in hooks.members:
        wanted = _wanted(each, hooks)
        idle = [hook for hook in wanted if hook not in there]
        if "build_planner" in idle:  # it acts in evaluations
            idle.remove("build_planner")
            notes.append(
                f"{each.name} looks ahead in evaluations only: {algorithm.config.name} collects without a planner"
            )
        if idle and (idle == wanted or "wrap_agent" in idle):
            raise _without_effect(each, idle, there, algorithm.config.name)
        notes += [f"{each.name}: {algorithm.config.name} never calls its {hook}" for hook in idle]
    return notes


def check_without_losses(hooks: Hooks, algorithm: Algorithm) -> None:
    """Raise ConfigError where a plugin works by the loss alone, and an algorithm has none that did not say so."""
    if algorithm.calls is None:
        algorithm.calls = tuple(called(hooks, algorithm) - {"compute_loss"})
        check_called(hooks, algorithm)


def _wanted(each: Member, hooks: Hooks) -> list[str]:
    """Return the hooks of a plugin of which one at least has to be called."""
    own = [hook for hook in HOOKS if each in hooks.implementers(hook) and (each.kind, hook) != _ANSWER]
    return [hook for hook in own if hook in CHANGING] or [hook for hook in own if own == [_WITHIN]]


def _without_effect(each: Member, idle: Sequence[str], there: set[str], name: str) -> ConfigError:
    """Return the error of a plugin whose hooks are never called."""
    idle = ["wrap_agent"] if "wrap_agent" in idle else idle  # what it needs most
    others = [_INSTEAD[hook] for hook in idle if _INSTEAD.get(hook, "") in {*there, "on_epoch_end"}]
    instead = [f"{others[0]} in its place, which {name} calls"] if others else []
    if algorithms := callers(*idle):
        instead.append(f"maze train {', '.join(algorithms[:_MOST])}")
    return ConfigError(
        f"{each.name} works by its hook{'s' * (len(idle) > 1)} {' and '.join(idle)}, which {name} never calls",
        each.place or each.kind,
        f"Next: {', or '.join(instead)}." if instead else None,
    )


def callers(*hooks: str) -> list[str]:
    """Return the algorithms that declare to call one of these hooks, of those that come with Maze and are installed."""
    claims = [each for each in discovery.declarations() if each.kind == "algorithm"]
    names = sorted({each.name for each in claims if each.entry_point.module.partition(".")[0] in packages()})
    return [name for name in names if not set(hooks).isdisjoint(_declared(name))]


def _declared(name: str) -> tuple[str, ...]:
    try:
        return discovery.load("algorithm", name).calls or ()
    except Exception:  # noqa: BLE001 — a broken plugin is no help
        return ()
