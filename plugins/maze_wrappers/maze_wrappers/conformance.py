"""The conformance kit's trials of wrappers that need more than their defaults."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces
from maze_devkit import Case, Trial
from maze_devkit.envs import SpacesEnv
from maze_devkit.probes import Told, Workshop


def gymnasium_wrapper(case: Case) -> Trial:
    """Use one of gymnasium's own wrappers."""
    return Trial(parameters={"id": "gymnasium.wrappers:FlattenObservation"})


def tokenize(case: Case) -> Trial:
    """Use an environment with texts."""

    def env() -> gymnasium.Env[Any, Any]:
        texts = spaces.Dict({"note": spaces.Text(20), "at": spaces.Discrete(5)})
        return SpacesEnv(texts, spaces.Discrete(2))

    return Trial(env=env)


def mask_from_info(case: Case) -> Trial:
    """Use an environment with a mask in its `info`."""
    return Trial(env=Told)


def info_to_observation(case: Case) -> Trial:
    """Use an environment with a vector in its `info`."""
    return Trial({"keys": {"wind": [3]}}, env=Told)


def select(case: Case) -> Trial:
    """Keep two parts."""
    return Trial({"keys": ["picture", "gauge"]}, env=Workshop)


def drop(case: Case) -> Trial:
    """Drop a part."""
    return Trial({"keys": ["mode"]}, env=Workshop)


def hide(case: Case) -> Trial:
    """Hide an element."""
    return Trial({"keys": ["gauge"], "elements": [0]}, env=Workshop)


def info_events(case: Case) -> Trial:
    """Report a number that no environment of the kit has in its `info`: it is then not reported."""
    return Trial({"events": {"distance": ["max"]}})


def scalarize(case: Case) -> Trial:
    """Weigh a reward of one number."""
    return Trial({"weights": [2.0]})


def rescale(case: Case) -> Trial:
    """Use other bounds than those that the environments have."""
    return Trial({"low": 0})


def shift_observations(case: Case) -> Trial:
    """Subtract the same number from every entry."""
    return Trial({"offset": [1.5]})
