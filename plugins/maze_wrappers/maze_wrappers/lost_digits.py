"""Observations whose numbers float32, in which networks compute, cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core.base.foreign_settings import settings_kept
from maze_core.envs.codecs import follow
from maze_core.envs.spaces import is_narrow, leaves
from maze_core.plugins.closing import releasing

if TYPE_CHECKING:
    import gymnasium

    from maze_core import Run, Tree
    from maze_core.envs.spaces import Leaf

_STEPS = 50
_LARGE = 1e3
"""Smaller numbers have enough digits in float32."""
_LOST = 1 / 64
"""The share of a spread that rounding may take."""


def lost_digits(run: Run, first: Tree) -> list[str]:
    """Return notes about observations that lose digits in float32; `first`: those of resets, leaves [N, …]."""
    env, wrappers = run.env_builder("trial"), len(run.config.wrappers)
    if run.environments.kind.agents:
        return seen_by_agents(lambda: env.agents_env(0), wrappers)
    return seen_notes(run.observation_space, first, lambda: env.single(0), wrappers)


def seen_notes(
    space: gymnasium.Space[Any], first: Tree, build: Callable[[], gymnasium.Env[Any, Any]], wrappers: int
) -> list[str]:
    """Return a note about each leaf without narrow bounds whose digits float32 loses in the first steps.

    Args:
        space: the observation space.
        first: first observations, leaves [N, …]; only where they are large, an environment is stepped to see more.
        build: returns an environment to step.
        wrappers: how many wrappers there are.
    """
    doubtful = [leaf for leaf in _doubtful(space) if _is_large(first[leaf.key])]
    if not doubtful:
        return []
    with suppress(Exception), releasing(build()) as env:  # an environment that fails tells so when it is stepped
        return [note for leaf, values in _seen(env, doubtful) if (note := _note(leaf, values, wrappers))]
    return []


def seen_by_agents(build: Callable[[], Any], wrappers: int) -> list[str]:
    """Return the notes of `seen_notes` where several agents act: one for a leaf, of the first agent that has it."""
    with suppress(Exception), releasing(build()) as env:
        shown = _played(env)
        notes: dict[str, str] = {}
        for agent, observations in shown.items():
            for leaf in _doubtful(env.observation_spaces[agent]):
                if leaf.key not in notes and (note := _note(leaf, _values(observations, leaf), wrappers)):
                    notes[leaf.key] = note
        return list(notes.values())
    return []


def _doubtful(space: gymnasium.Space[Any]) -> list[Leaf]:
    """Return the leaves without narrow bounds that may hold numbers whose digits float32 loses."""
    return [leaf for leaf in leaves(space, "observation") if _may_lose(leaf.space)]


def _may_lose(space: gymnasium.Space[Any]) -> bool:
    kind: np.dtype[Any] = np.dtype(space.dtype)
    return isinstance(space, spaces.Box) and kind.itemsize >= (8 if kind.kind == "f" else 4) and not is_narrow(space)


def _is_large(values: np.ndarray) -> bool:
    return bool((np.abs(values.astype(np.float64)) >= _LARGE).any())


@settings_kept()
def _seen(env: gymnasium.Env[Any, Any], doubtful: list[Leaf]) -> list[tuple[Leaf, np.ndarray]]:
    """Return what some random steps show of leaves, [T, d] float64."""
    seen = [env.reset(seed=0)[0]]
    env.action_space.seed(0)
    for number in range(1, _STEPS):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(observation)
        if terminated or truncated:
            seen.append(env.reset(seed=number)[0])
    return [(leaf, _values(seen, leaf)) for leaf in doubtful]


@settings_kept()
def _played(env: Any) -> dict[str, list[Any]]:
    """Return what some random rounds show each agent; nothing where those that act first see no large number."""
    seen: dict[str, list[Any]] = {}
    for space in env.action_spaces.values():
        space.seed(0)
    now = env.reset(0)
    if not any(_sees_large(env.observation_spaces[agent], each) for agent, each in now.acting.items()):
        return {}
    for number in range(1, _STEPS):
        for agent, observation in now.acting.items():
            seen.setdefault(agent, []).append(observation)
        actions = {agent: env.action_spaces[agent].sample() for agent in now.acting}
        now = env.step(actions) if actions else env.reset(number)
    return seen


def _sees_large(space: gymnasium.Space[Any], observation: Any) -> bool:
    return any(_is_large(np.array(follow(observation, leaf.path))) for leaf in _doubtful(space))


def _values(observations: list[Any], leaf: Leaf) -> np.ndarray:
    """Return a leaf of some observations, [T, d] float64."""
    return np.stack([np.array(follow(each, leaf.path), np.float64).reshape(-1) for each in observations])


def _note(leaf: Leaf, values: np.ndarray, wrappers: int) -> str | None:
    low, high = values.min(0), values.max(0)
    rounding = np.abs(values - values.astype(np.float32)).max(0)
    lost = (high > low) & (np.abs(values).max(0) >= _LARGE) & (rounding > _LOST * (high - low))
    if not lost.any():
        return None
    worst = int(np.argmax(lost))
    way = "--wrappers shift_observations" if not wrappers else "the wrapper shift_observations after the others"
    return (
        f"the observation {leaf.key!r} is near {values[0, worst]:.6g} in the first steps, and its differences, up to "
        f"{high[worst] - low[worst]:.3g}, are lost in the float32 of networks. Next: {way} "
        f"--set 'wrappers.{wrappers}.offset=[{values[0, worst]:.0f}]', which is subtracted before"
    )
