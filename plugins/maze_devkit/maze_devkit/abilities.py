"""Checks of what algorithms declare: memory, several actors and learners; of masks, and leaves that critics alone see.

What an algorithm declares must hold in a small run, also when it is resumed. What it does not declare must be refused
by name before the first step.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces

from maze_core import ConfigError, distribution_of, to_tensors
from maze_core.learn.taken_over import declares_learners, is_installed
from maze_core.models.building import probe
from maze_core.models.memory import separate_rows
from maze_core.run import api
from maze_devkit import runs
from maze_devkit.challenges import Errand, Masked, Privileged
from maze_devkit.drift import DriftSource
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.probes import Walk
from maze_devkit.rehearsal import Probe, probe_of, rehearse
from maze_devkit.several import Order, Seats
from maze_devkit.subject import AnyEnv, MakeEnv, Subject, blamed, refusal
from maze_devkit.telling import Telling

if TYPE_CHECKING:
    from maze_core import Run

_MEMORY: Mapping[str, Any] = {"model.memory": "gru", "model.memory_size": 8}
_EPOCHS = 2
_ROUNDING = 0.01
"""How far several learners may be from one, as a share of the way that one goes."""


def _memory(subject: Subject) -> None:
    env = runs.walk(subject)
    if "memory" not in _model_fields(subject):
        raise NotApplicable("its model has no parameter `memory`")
    if not subject.plugin.supports_memory:
        _refused(subject, env, _MEMORY, "memory", "a policy with memory")
        return
    _holds(subject, env, _MEMORY, "memory")


def _masks(subject: Subject) -> None:
    if runs.continuous(subject):
        raise NotApplicable("only choices have masks")
    try:
        with runs.started(subject, Masked, subject.folder / "run", {"algorithm.n_epochs": _EPOCHS}) as run:
            api.carry_out(run)
    except ConfigError as error:
        _insist_on_name(error, "mask", "an environment with masks")
    except Exception as error:
        _insist_on_runs(subject, error)
        raise Failed(f"with masks, a small run fails: {blamed(subject, error)}") from error


def _actors(subject: Subject) -> None:
    env = functools.partial(Errand, continuous=runs.continuous(subject))
    if subject.plugin.needs_agents:
        raise NotApplicable("it learns only where several agents act, see the check `agents`")
    if not (subject.plugin.supports_actors or subject.plugin.needs_actors):
        several = spaces.Dict in subject.plugin.action_spaces
        _refused(subject, env, {}, "actor" if several else "", "an environment with several actors")
        return
    learned = _holds(subject, env, {}, "policies.")
    if "gamma" not in subject.plugin.Config.model_fields:
        return
    values = {"algorithm.n_epochs": _EPOCHS, "algorithm.gamma": 0.5}
    if runs.differing(learned, runs.train(subject, env, subject.folder / "discounted", values)):
        raise Failed("it discounts by gamma within a decision, where observations say that none has elapsed")


def _agents(subject: Subject) -> None:
    make: MakeEnv = functools.partial(Walk, runs.continuous(subject))
    plugin = subject.plugin
    if plugin.info_columns:
        make = functools.partial(Telling, make, plugin.info_columns)
    if plugin.needs_actors:
        raise NotApplicable("it learns only where several actors take turns, see the check `actors`")
    if not (plugin.supports_agents or plugin.needs_agents):
        _refused(subject, functools.partial(Seats, make, "mixed"), {}, "agent", "an environment with several agents")
        return
    if subject.walk.env is not None and plugin.needs_agents:
        _holds(subject, subject.walk.env, {}, "")
        return
    _holds(subject, functools.partial(Seats, make, _order(subject, make)), {}, "")


def _order(subject: Subject, make: MakeEnv) -> Order:
    """Return an order of agents that the algorithm takes: both mixed, or what is left where it refuses one of them."""
    orders: tuple[Order, ...] = ("mixed", "together")
    for order in orders:
        try:
            with runs.started(subject, functools.partial(Seats, make, order), subject.folder / order) as run:
                api.carry_out(run)
        except ConfigError as error:  # at the start, or at the first step that it cannot take
            _insist_on_name(error, "turn", "agents that act in turns, or at the same time")
            continue
        except Exception:  # noqa: BLE001, S110 — told by the run that follows
            pass
        return order
    return "in turns"


def _learners(subject: Subject) -> None:
    env, values = runs.walk(subject), {"algorithm.n_epochs": 1}
    if not declares_learners(subject.plugin):
        _refused(subject, env, {"learners": 2}, "learner", "a run with two learners")
        return
    if not is_installed():
        raise NotApplicable("needs maze-learners, which is not installed")
    with runs.started(subject, env, subject.folder / "start", values) as run:
        start, trained = runs.learned(run), _trained(run)
    one = runs.train(subject, env, subject.folder / "one", values)
    try:
        with runs.started(subject, env, subject.folder / "two", {**values, "learners": 2}) as run:
            api.carry_out(run)
            two = runs.learned(run)
    except Exception as error:
        raise Failed(f"it declares that it can, but a small run with two fails: {blamed(subject, error)}") from error
    if (apart := _apart(one, two, trained) / max(_apart(start, one, trained), 1e-12)) <= _ROUNDING:
        return
    if runs.differing(one, runs.train(subject, env, subject.folder / "again", values)):
        raise NotApplicable("two runs with the same seed differ, see the check `deterministic`")
    raise Failed(f"two learners end elsewhere than one: {apart:.0%} of the way that one goes lies between them")


def _trained(run: Run) -> list[str]:
    """Return the names of the parameters that the optimizer may change, as `runs.learned` has them."""
    networks = {"policy": run.policy, **run.algorithm.modules()}
    named = ((f"{part}.{name}", p) for part, network in networks.items() for name, p in network.named_parameters())
    return [name for name, parameter in named if parameter.requires_grad]


def _apart(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor], names: Sequence[str]) -> float:
    """Return the distance of two results, in the tensors with these names."""
    squares = [(second[name].double() - first[name].double()).square().sum() for name in names]
    return float(torch.stack(squares).sum().sqrt())


def _critic_leaves(subject: Subject) -> None:
    try:
        critics, first = _with_leaves(subject, 1.0, "first")
        _, other = _with_leaves(subject, 2.0, "other")
    except ConfigError as error:
        _insist_on_name(error, "critic", "leaves below `critic/`")
        return
    except Failed:
        raise
    except Exception as error:
        _insist_on_runs(subject, error)
        raise Failed(f"with leaves below `critic/`, a small run fails: {blamed(subject, error)}") from error
    differs = bool(runs.differing(first, other))
    if differs and runs.differing(first, _with_leaves(subject, 1.0, "again")[1]):
        raise NotApplicable("two runs with the same seed differ, see the check `deterministic`")
    if critics and not differs:
        raise Failed("it has critics, but what critics alone see makes no difference to them")
    if not critics and differs:
        raise Failed("it has no critics, but its result depends on what critics alone may see")


def _with_leaves(subject: Subject, scale: float, name: str) -> tuple[bool, Mapping[str, torch.Tensor]]:
    """Train with leaves for critics alone; return whether the algorithm has critics, and what it learned."""
    env = functools.partial(Privileged, scale, runs.continuous(subject))
    with runs.started(subject, env, subject.folder / name, {"algorithm.n_epochs": 1}) as run:
        _insist_on_blindness(run)
        api.carry_out(run)
        # A network like the policy is its target, which decides, as the policy does.
        others = [module for module in run.algorithm.modules().values() if type(module) is not type(run.policy)]
        # What the normaliser has seen decides nothing by itself.
        found = {name: leaf for name, leaf in runs.learned(run).items() if not name.startswith("policy.normalizer.")}
        return bool(others) or bool(getattr(run.policy, "has_critic", False)), found


def _insist_on_blindness(run: Run) -> None:
    """Raise Failed if the policy's decision depends on what critics alone may see."""
    seen = to_tensors(probe(run.observation_space, 1), run.device)
    rows = len(next(iter(seen.values())))
    policy: Any = run.policy
    modes = []
    for number in (0.0, 100.0):
        obs = {**seen, "critic/number": torch.full((rows, 1), number, device=run.device)}
        with torch.no_grad():
            distribution = distribution_of(policy, obs, separate_rows(policy, rows))
            modes.append(torch.cat([distribution.entropy(), distribution.log_prob(distribution.mode())]))
    if not torch.equal(*modes):
        raise Failed("the policy's decision depends on leaves below `critic/`")


def _holds(subject: Subject, env: AnyEnv, values: Mapping[str, Any], part: str) -> dict[str, torch.Tensor]:
    """Return what a small run learns; raise Failed if it fails, leaves a part of the policy out, or resumes otherwise.

    `part`: what the names of the parameters contain that must learn.
    """
    values = {**values, "algorithm.n_epochs": _EPOCHS}
    whole, split = subject.folder / "whole", subject.folder / "split"
    more = {("callback", "probe"): probe_of(subject)}
    try:
        with runs.started(subject, env, whole, {**values, "callbacks.probe.name": "probe"}, more) as run:
            idle = _idle(run, part)
            learned = runs.learned(run)
    except Exception as error:
        _insist_on_runs(subject, error)
        raise Failed(f"it declares that it can, but a small run fails: {blamed(subject, error)}") from error
    if idle is None:
        raise Failed("it declares that it can, but a small run yields no batch: that proves nothing")
    if idle:
        raise Failed(f"the loss gives no gradient to {', '.join(idle[:4])}")
    if subject.walk.waived.get("resumes"):
        return learned
    runs.train(subject, env, split, values, until=_EPOCHS - 1)
    names = runs.differing(learned, runs.resume(subject, env, split, _EPOCHS))
    if names and not runs.differing(learned, runs.train(subject, env, subject.folder / "again", values)):
        raise Failed(f"a resumed run differs in {len(names)} of {len(learned)} tensors, such as {names[0]}")
    return learned


def _idle(run: Run, part: str) -> list[str] | None:
    """Carry out a run; return the policy's parameters named like `part` that no loss gave a gradient to.

    None: there was no batch.
    """
    probe: Probe = run.hooks.plugin("callback")
    named = {name: p for name, p in run.policy.named_parameters() if part in name and p.requires_grad}
    probe.tensors = list(named.values())
    api.carry_out(run)
    learned = probe.reached | run.learner.set_without_optimizer
    return [name for name, p in named.items() if id(p) not in learned] if learned else None


def _refused(subject: Subject, env: AnyEnv, values: Mapping[str, Any], word: str, what: str) -> None:
    """Raise Failed unless a run is refused before its first step by a message with `word`."""
    try:
        with runs.started(subject, env, subject.folder / "run", values):
            pass
    except ConfigError as error:
        _insist_on_name(error, word, what)
    except Exception as error:
        _insist_on_runs(subject, error)
        raise Failed(f"{what} ends without a ConfigError: {blamed(subject, error)}") from error
    else:
        raise Failed(f"it does not declare support for {what}, but does not refuse it")


def _insist_on_name(error: ConfigError, word: str, what: str) -> None:
    if word not in str(error):
        raise Failed(f"it refuses {what}, but does not say why: {refusal(error)}") from error


def _tensors(subject: Subject) -> None:
    if not subject.plugin.supports_tensors:
        raise NotApplicable("it does not declare `supports_tensors`")
    taken = subject.plugin.action_spaces
    actions = "both" if spaces.Dict in taken else "push" if runs.continuous(subject) else "turn"
    env, more = runs.walk(subject), {("env", "drift"): DriftSource}
    values = {"env.name": "drift", "env.actions": actions}
    arrays = runs.train(subject, env, subject.folder / "arrays", {**values, "env.arrays": True}, more)
    try:
        with runs.started(subject, env, subject.folder / "tensors", values, more) as run:
            api.carry_out(run)
            tensors = runs.learned(run)
    except Exception as error:
        raise Failed(
            f"it declares that it can, but a small run with tensors fails: {blamed(subject, error)}"
        ) from error
    if names := runs.differing(arrays, tensors):
        raise Failed(f"where rollouts stay on the device, it learns something else: {names[0]} differs")


def _insist_on_runs(subject: Subject, error: Exception) -> None:
    """Raise NotApplicable for an algorithm that runs nowhere."""
    if subject.bench.once(subject, rehearse).error is not None:
        raise NotApplicable(runs.BROKEN_RUN) from error


def _model_fields(subject: Subject) -> Mapping[str, Any]:
    assembly = subject.assembly()
    name = runs.quick(subject.walk.run, assembly)["model.name"]
    fields: Mapping[str, Any] = assembly.load("model", name).Config.model_fields
    return fields


CHECKS = (
    Check(
        "memory",
        "If it declares `supports_memory`, a policy with memory learns, through time, and resumes bit-equally; if not, "
        "such a policy is refused before the first step.",
        "A policy whose memory is wrong trains without an error, and badly.",
        "Pass `batch.sequences` to the policy with every batch, and save what agents remember: collectors do. Leave "
        "`supports_memory` unset otherwise.",
        _memory,
    ),
    Check(
        "masks",
        "Masked choices are never taken, or masks are refused before the first step.",
        "Environments with masks fail at a forbidden action, or learn from actions that were never taken.",
        "Act with the distribution of the policy, which reads the masks.",
        _masks,
    ),
    Check(
        "actors",
        "If it declares `supports_actors`, every actor's policy learns, nothing is discounted within a decision, and a "
        "resumed run is bit-equal; if not, several actors are refused before the first step.",
        "An actor that does not learn, or is discounted as if time had passed, shows in nothing but the results.",
        "Use the policy through its methods alone, and discounts from `rollout_discounts` or the replay buffer. "
        "Leave `supports_actors` unset otherwise.",
        _actors,
    ),
    Check(
        "agents",
        "If it declares `supports_agents` or `needs_agents`, it learns from agents that act together and in turns, and "
        "resumes bit-equally; if not, several agents are refused before the first step.",
        "Agents that wait, or leave early, have rows without a step: an algorithm that learns from them learns noise.",
        "Collect with `RolloutCollector` or `ReplayCollector`, and leave out rows that are not valid. Leave "
        "`supports_agents` unset otherwise.",
        _agents,
    ),
    Check(
        "learners",
        "If it declares `supports_learners`, two learner processes end where one does, but for rounding; if not, "
        "several are refused before the first step.",
        "Learners that divide a batch otherwise than the loss allows train without an error, and something else.",
        "Let `compute_loss` be a mean over the rows of a batch, and compute what belongs to all rows in `batches`. "
        "Leave `supports_learners` unset otherwise.",
        _learners,
    ),
    Check(
        "tensors",
        "If it declares `supports_tensors`, it learns from environments with tensors what it learns from the same with "
        "arrays.",
        "Rollouts of such environments hold tensors, which code for arrays reads wrongly or not at all.",
        "Pass rollouts to `advantage_rows` and to the collector, and read their rewards and flags alone. Leave "
        "`supports_tensors` unset otherwise.",
        _tensors,
    ),
    Check(
        "critic_leaves",
        "Leaves below `critic/` change what critics learn, and never what the policy decides; or they are refused.",
        "A policy that sees them cannot act where they are missing; critics that do not see them learn less.",
        "Build critics with `maze_core.models.inputs.critic_spaces`, and policies with `input_spaces`.",
        _critic_leaves,
    ),
)
"""The checks of what algorithms declare."""
