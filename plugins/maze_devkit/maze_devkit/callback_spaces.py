"""The check of callbacks in environments of every kind: images, dictionaries and tuples."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from maze_core import ConfigError
from maze_core.run import api
from maze_devkit.callback_runs import LEARNING, algorithms, given_up, hooks_of, observes, quiet, started
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.spaces import ACTIONS, OBSERVATIONS, Space, environment
from maze_devkit.subject import Subject, blamed

_IMAGE = OBSERVATIONS["an image"]
_PARTS = OBSERVATIONS["several parts"]
_VECTOR = spaces.Box(-1, 1, (3,), np.float32)
_CASES: dict[str, tuple[Space, Space]] = {
    "a tuple of an image and several parts, and actions of several parts": (
        spaces.Tuple((_IMAGE, _PARTS)),
        ACTIONS["several parts"][1],
    ),
    "several parts, and actions of a choice": (_PARTS, spaces.Discrete(3)),
    "a tuple, and actions of a tuple": (
        spaces.Tuple((_VECTOR, spaces.Discrete(2))),
        spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,), np.float32))),
    ),
    "an image, and actions of a bounded vector": (_IMAGE, ACTIONS["a bounded vector"][1]),
    "a number of five, and several choices": (OBSERVATIONS["a number of five"], ACTIONS["several choices"][1]),
}
"""Observations and actions by description. The first has all kinds in one, for callbacks that only observe."""


def _spaces(subject: Subject) -> None:
    try:
        _all_kinds(subject)
    except Failed:
        _insist_on_working(subject)
        raise


def _insist_on_working(subject: Subject) -> None:
    """Skip the check for a callback that fails everywhere."""
    try:
        observes(subject)
    except Exception as error:
        raise NotApplicable("a run with it fails, see the check `observes`") from error


def _all_kinds(subject: Subject) -> None:
    learning = set(hooks_of(subject)) & set(LEARNING)
    for number, (title, (seen, done)) in enumerate(_CASES.items()):
        for algorithm in algorithms(subject):
            _one(subject, f"observations of {title}", f"{algorithm}{number}", algorithm, (seen, done))
        if not learning:
            return


def _one(subject: Subject, title: str, folder: str, algorithm: str, both: tuple[Space, Space]) -> None:
    """Complete a run in an environment with these spaces, unless the callback refuses them before the first step."""
    with quiet() as said:
        try:
            with started(subject, subject.folder / folder, algorithm, environment(*both)) as run:
                run.until_epoch = 1
                try:
                    api.carry_out(run)
                except ConfigError as error:
                    if run.env_steps:
                        raise Failed(f"{title}: it refuses them after {run.env_steps} steps: {error}") from error
        except (ConfigError, Failed) as error:
            if isinstance(error, Failed):
                raise
        except Exception as error:
            raise Failed(f"{title}: {blamed(subject, error)}") from error
    if broken := given_up(said):
        raise Failed(f"{title}: {broken}")


CHECK = Check(
    "spaces",
    "A run with it works where observations and actions are images, dictionaries or tuples; or it refuses them by a "
    "ConfigError before the first step.",
    "Maze takes every such environment; a space of several parts has no `shape`, and its observations have other keys.",
    "Treat `batch.obs` and `rollout.obs` as dictionaries of any keys, and build networks with "
    "`maze_core.models.inputs.FlatInput(input_spaces(…))`; or raise ConfigError in `build_modules` or `on_run_start`.",
    _spaces,
)
"""The check of a callback's spaces."""
