"""Finds out how the environments of a run can be copied in the middle of an episode."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from maze_core import ConfigError, PluginConfig
from maze_core.collect.policies.random import RandomPolicy
from maze_core.plugins.discovery import describe
from maze_planning.simulator import Simulators, same_outcomes

if TYPE_CHECKING:
    from maze_core import EnvBuilder, Tree
    from maze_planning.simulator import Outcome, Simulator

_BEFORE, _AFTER = 8, 20
"""Steps before an environment is copied, and after."""
PLAY_ALONE = "To act with the network alone: --no-look-ahead, or look_ahead=False in Python."


def copies_by_replay(builder: EnvBuilder, seed: int) -> bool:
    """Return True where environments are copied by replay, False where `copy.deepcopy` copies them.

    An episode of random actions is played, copied, and goes on: the same actions must bring the same in the copy and in
    the episode itself, whatever another copy did in between.

    Raises:
        ConfigError: neither way gives true copies.
    """
    problems = []
    for by_replay in (False, True):
        with closing(Simulators(builder, by_replay=by_replay)) as simulators:
            problem = copy_problem(simulators, seed)
        if problem is None:
            return by_replay
        problems.append(problem)
    raise ConfigError(
        f"nobody can look ahead in {builder.env.name!r}, whose environments cannot be copied. By copy.deepcopy: "
        f"{problems[0]}. By replay of the episode's seed and actions: {problems[1]}",
        "env",
        f"Let episodes depend on their seed and their actions only, or define __deepcopy__. {PLAY_ALONE}",
    )


def copy_problem(simulators: Simulators, seed: int) -> str | None:
    """Return why copies of environments are not true; None: they are."""
    episode, draw = simulators.episode(0), _Draw(simulators, seed)
    episode.begin(seed)
    for _ in range(_BEFORE):
        if episode.over:
            episode.begin(seed)
            break
        episode.follow(draw(episode))
    if episode.over:
        episode.begin(seed)
    try:
        return _difference(episode, draw)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — whatever an environment raises
        return describe(error)


def _difference(episode: Simulator, draw: _Draw) -> str | None:
    copy, other = episode.copy(), episode.copy()
    steps: list[tuple[Tree, Outcome]] = []
    while not copy.over and len(steps) < _AFTER:
        actions = draw(copy)
        steps.append((actions, copy.step(actions)))
    for _ in range(len(steps)):
        if not other.over:
            other.step(draw(other))
    for number, (actions, outcome) in enumerate(steps, 1):
        if episode.over or not same_outcomes(outcome, episode.follow(actions)):
            return f"a copy and the environment itself differ {number} steps later, with the same actions"
    return None


class _Draw:
    """Draws random actions that the masks allow."""

    def __init__(self, simulators: Simulators, seed: int) -> None:
        self._random = RandomPolicy(PluginConfig())
        self._random.setup(simulators.observation_space, simulators.action_space)
        self._rng = np.random.default_rng(seed)

    def __call__(self, simulator: Simulator) -> Tree:
        return self._random.act(simulator.obs, [self._rng] * simulator.rows)
