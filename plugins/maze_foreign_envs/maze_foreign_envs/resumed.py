"""Natively vectorised environments whose state can be saved, so that a run resumes exactly without replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium
import numpy as np

from maze_core.base.saved_state import Array, check_state
from maze_core.envs.wrappers import VectorRewardMeter, lasting_layers
from maze_foreign_envs.tensor_envs import OnHost

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds

    NativeEnv = gymnasium.vector.VectorEnv[Any, Any, Any]

_KEEP_NOTHING = (OnHost, VectorRewardMeter, gymnasium.wrappers.vector.TransformReward)
"""Layers that neither remember a step nor change what is observed."""
_PLACE = "native/arrays"


class ResumableEnv(Protocol):
    """What a `gymnasium.vector.VectorEnv` has that saves its own state."""

    def begin(self, seeds: EpisodeSeeds, episodes: np.ndarray) -> None:
        """Let the next reset begin these episodes [N]; each one from then on has the seed of its number."""

    def saved(self) -> dict[str, np.ndarray]:
        """Return the state of all environments."""

    def load(self, saved: Mapping[str, np.ndarray], seeds: EpisodeSeeds, place: str) -> Any:
        """Restore the result of `saved()`, and return the current observations.

        Raises:
            StateError: it is something else; `place` is where it stands.
        """


class Resumable:
    """The state of an environment that saves its own, with the sums of its unfinished episodes."""

    def __init__(self, env: ResumableEnv, num_envs: int) -> None:
        self._env, self._num_envs = env, num_envs
        self.saved = env.saved
        self.begun = False
        """True once there are episodes, whose state can be saved."""

    def begin(self, seeds: EpisodeSeeds, episodes: np.ndarray) -> None:
        """Let the next reset begin these episodes [N]."""
        self._env.begin(seeds, episodes)
        self.begun = True

    def continued(self, state: Mapping[str, Any], seeds: EpisodeSeeds) -> tuple[np.ndarray, np.ndarray, Any]:
        """Restore the environments; return the lengths [N] and returns [N] of the episodes, and the observations.

        Raises:
            StateError: the state is that of other environments.
        """
        rows = (self._num_envs,)
        form = {"length": Array(np.dtype(np.int64), rows, 0, 2**53), "return": Array(np.dtype(np.float64), rows)}
        check_state(state, {**form, "arrays": {}}, "native")
        observation = self._env.load(state["arrays"], seeds, _PLACE)
        self.begun = True
        return state["length"], state["return"], observation


def resumable(env: NativeEnv) -> Resumable | None:
    """Return the state of an environment; None where it saves none, or a wrapper would lose what it remembers."""
    layer: Any = env
    while isinstance(layer, gymnasium.vector.VectorWrapper):
        if not isinstance(layer, _KEEP_NOTHING):
            return None
        layer = layer.env
    if lasting_layers(env) or not all(hasattr(layer, name) for name in ("begin", "saved", "load")):
        return None
    return Resumable(cast("ResumableEnv", layer), env.num_envs)
