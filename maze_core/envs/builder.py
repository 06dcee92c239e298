"""What builds the environments of a run, in whatever process steps them."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maze_core.config.base import PluginConfig
from maze_core.envs.time_limits import EpisodeLimit
from maze_core.plugins import discovery
from maze_core.plugins.manager import Hooks, Member
from maze_core.training.seeding import Purpose, integer_seed

if TYPE_CHECKING:
    import gymnasium

    from maze_core.plugins.discovery import Loader


@dataclass(frozen=True)
class EnvBuilder:
    """Builds single environments, wrapped as configured, through the hooks.

    It can be sent to a worker process, which makes its own plugins from the configurations; the plugin classes
    travel by reference.
    """

    env: PluginConfig
    wrappers: tuple[PluginConfig, ...] = ()
    seed: int = 0
    """The seed of the run."""
    purpose: str = "training"
    """What the environments are for: `training` and `evaluation` differ in the seeds of construction."""
    load: Loader = discovery.load
    max_episode_steps: int | None = None
    """Steps after which a single environment's episode is cut, whatever its own limit; None: never."""

    def __call__(self, index: int) -> gymnasium.Env[Any, Any]:
        """Build environment `index`. Raises what the plugin raised, with a note that names it."""
        env = self._hooks.make_env(self.env, self._construction_seed(index), index)
        return env if self.max_episode_steps is None else EpisodeLimit(env, self.max_episode_steps)

    def vector_env(self, num_envs: int) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """A natively vectorised environment; None where the source has none.

        Also, with a warning, where a wrapper knows single environments only.
        """
        env = self._hooks.make_vector_env(self.env, num_envs, self._construction_seed(0))
        single = next((each for each in self._hooks.members if each.kind == "wrapper" and _single_only(each)), None)
        if env is None or single is None:
            return env
        env.close()
        warnings.warn(
            f"{single.place}: {single.name!r} wraps single environments, so these are not stepped in their natively "
            "vectorised form",
            RuntimeWarning,
            stacklevel=2,
        )
        return None

    def _construction_seed(self, index: int) -> int:
        purpose = zlib.crc32(self.purpose.encode())
        return integer_seed(self.seed, Purpose.ENV_CONSTRUCTION, purpose, index)

    @cached_property
    def _hooks(self) -> Hooks:
        return Hooks.for_envs(self.env, self.wrappers, self.load)

    def __getstate__(self) -> dict[str, Any]:
        parts = [("env", self.env), *(("wrapper", wrapper) for wrapper in self.wrappers)]
        known = _Known({(kind, part.name): self.load(kind, part.name) for kind, part in parts})
        state = {key: value for key, value in self.__dict__.items() if key != "_hooks"}
        return {**state, "load": known}


def _single_only(wrapper: Member) -> bool:
    """Whether a wrapper changes single environments but not natively vectorised ones."""
    return hasattr(wrapper.plugin, "make_env") and not hasattr(wrapper.plugin, "make_vector_env")


@dataclass(frozen=True)
class _Known:
    """A loader of the classes that the sending process has found."""

    classes: dict[tuple[str, str], Any]

    def __call__(self, kind: str, name: str) -> type[Any]:
        """The class of that kind and name."""
        found: type[Any] = self.classes[kind, name]
        return found
