"""The checks of models."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch
from gymnasium import Space
from torch import nn

from maze_core import ConfigError, TensorTree, to_arrays
from maze_core.base.process_state import isolated_rng
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import Member
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.process import left_alone
from maze_devkit.spaces import ACTIONS, OBSERVATIONS
from maze_devkit.subject import Subject

_ROWS = 4
_METHODS = ("distribution", "value", "forward", "draw_noise")


def _policy(subject: Subject, observation_space: Space[Any], action_space: Space[Any], seed: int = 1) -> nn.Module:
    hooks = Hooks([Member("model", subject.name, subject.build(), subject.claim.origin)])
    with isolated_rng(seed):
        return hooks.build_policy(observation_space, action_space, subject.config)


def _taken(subject: Subject) -> list[str]:
    """Return the observations that the model supports."""
    return [name for name, space in OBSERVATIONS.items() if _takes(subject, space, ACTIONS["a choice"][1])]


def _takes(subject: Subject, observation_space: Space[Any], action_space: Space[Any]) -> bool:
    try:
        _policy(subject, observation_space, action_space)
    except ConfigError:
        return False
    return True


def _policies(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Yield a policy for each kind of observation that the model supports, and for each kind of action."""
    try:
        taken = subject.bench.once(subject, _taken)
        pairs = chain(((name, "a choice") for name in taken), ((taken[0], name) for name in ACTIONS))
        for seen, done in pairs:
            policy = _policy(subject, OBSERVATIONS[seen], ACTIONS[done][1])
            yield f"observations of {seen} and actions of {done}", policy
    except NotApplicable:
        raise
    except Exception as error:
        raise NotApplicable(f"no policy can be built, see the check `spaces` ({error})") from error


def _spaces(subject: Subject) -> None:
    subject.build()
    taken = subject.bench.once(subject, _taken)
    if not taken:
        raise Failed(f"it refuses every observation: {', '.join(OBSERVATIONS)}")
    for name, (_, action_space) in ACTIONS.items():
        try:
            _policy(subject, OBSERVATIONS[taken[0]], action_space)
        except ConfigError as error:
            raise Failed(f"it supports observations of {taken[0]}, but not actions of {name}: {error}") from error


def _observations(space: Space[Any]) -> TensorTree:
    """Return observations [4, …]."""
    space.seed(3)
    rows = [ObservationCodec(space).tree(space.sample()) for _ in range(_ROWS)]
    return {key: torch.cat([torch.from_numpy(row[key]) for row in rows]) for key in rows[0]}


def _interface(subject: Subject) -> None:
    for title, policy in _policies(subject):
        missing = [name for name in _METHODS if not callable(getattr(policy, name, None))]
        if missing:
            raise Failed(f"the policy has no {', '.join(missing)}")
        space, actions = policy.observation_space, policy.action_space
        obs = _observations(space)
        noise = policy.draw_noise((_ROWS,), torch.Generator().manual_seed(1))
        distribution = policy.distribution(obs)
        samples = distribution.sample(noise)
        _check_rows(f"{title}: log_prob", distribution.log_prob(samples))
        _check_rows(f"{title}: entropy", distribution.entropy())
        if getattr(policy, "has_critic", True):
            _check_rows(f"{title}: value", policy.value(obs))
        _check_actions(title, actions, distribution.env_action(samples))
        _check_actions(title, actions, distribution.env_action(distribution.mode()))


def _check_rows(title: str, tensor: torch.Tensor) -> None:
    if tuple(tensor.shape) != (_ROWS,) or not bool(tensor.isfinite().all()):
        raise Failed(f"{title} of {_ROWS} rows is {tuple(tensor.shape)}, or not finite: {tensor.tolist()!r:.80}")


def _check_actions(title: str, space: Space[Any], tree: TensorTree) -> None:
    for action in ActionCodec(space).rows(to_arrays(tree)):
        if not space.contains(action):
            raise Failed(f"{title}: the action {action!r:.80} is not in {space}")


def _gradients(subject: Subject) -> None:
    for title, policy in _policies(subject):
        obs = _observations(policy.observation_space)
        distribution = policy.distribution(obs)
        with torch.no_grad():
            samples = distribution.sample(policy.draw_noise((_ROWS,), torch.Generator().manual_seed(1)))
        weights = torch.arange(1.0, _ROWS + 1)
        total = (distribution.log_prob(samples) * weights).sum()
        if getattr(policy, "has_critic", True):
            total = total + (policy.value(obs) * weights).sum()
        policy.zero_grad()
        total.backward()
        named = [(name, p) for name, p in policy.named_parameters() if p.requires_grad]
        idle = [name for name, p in named if p.grad is None]
        if idle:
            raise Failed(f"{title}: log-probabilities and values give no gradient to {', '.join(idle[:4])}")


def _deterministic(subject: Subject) -> None:
    for title, policy in _policies(subject):
        again = _policy(subject, policy.observation_space, policy.action_space)
        first, second = policy.state_dict(), again.state_dict()
        if first.keys() != second.keys() or not all(torch.equal(first[name], second[name]) for name in first):
            raise Failed(f"{title}: built twice with the same seed, the parameters differ")


def _global_state(subject: Subject) -> None:
    with left_alone("building a policy"):
        for _ in _policies(subject):
            pass


CHECKS = (
    Check(
        "spaces",
        "It builds a policy for some kind of observation and every kind of action; other observations are "
        "refused with a ConfigError.",
        "A model for images need not support vectors, but its users need every action space.",
        "Build heads by `assemble_policy`; raise ConfigError for observations that the encoder cannot take.",
        _spaces,
    ),
    Check(
        "interface",
        "The policy has the interface of `maze_core.models.policy.Policy`; its actions are in the action space.",
        "Algorithms rely on this interface.",
        "Return what `assemble_policy` builds, or follow the interface with its shapes.",
        _interface,
    ),
    Check(
        "gradients",
        "Log-probabilities and values give a gradient to every parameter.",
        "An unused part does not learn, but is saved and counted.",
        "Use it in `forward`, or do not build it; a critic depends on `config.critic`.",
        _gradients,
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
        "Building a policy leaves random states, threads, signal handlers, environment variables and the working "
        "directory alone.",
        "Otherwise two runs in one process affect each other.",
        "Restore what you must change.",
        _global_state,
        alone=True,
    ),
)
"""The checks of models."""
