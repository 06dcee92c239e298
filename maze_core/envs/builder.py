"""Builds the environments of a run, in any process."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, PluginError
from maze_core.base.foreign_settings import settings_kept
from maze_core.base.seeding import Purpose, integer_seed
from maze_core.envs.interfaces import lone, on_host, wrapped_agents
from maze_core.envs.time_limits import EpisodeLimit, is_limited
from maze_core.envs.wrappers import Metered
from maze_core.plugins.closing import release, releasing
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import Member

if TYPE_CHECKING:
    import gymnasium

    from maze_core.base.seeding import Values

_FOR_AGENTS = ("wrap_agents", "make_agents_env", "make_env")
# The methods of a wrapper that change environments with several agents.


@dataclass(frozen=True)
class EnvBuilder:
    """Builds single environments, wrapped as configured, through the hooks.

    It can be sent to a worker process, which builds its own plugins from the configurations; the plugin classes that
    these are bound to are pickled by reference.
    """

    env: PluginConfig
    wrappers: tuple[PluginConfig, ...] = ()
    _: KW_ONLY
    seed: int = 0
    """The seed of the run."""
    purpose: str = "training"
    """What the environments are for, such as `training` and `evaluation`. Seeds of construction depend on it, and the
    hooks receive it."""
    vectorised: bool = True
    """Use the natively vectorised form where there is one. A planner copies single environments, so it needs those."""
    max_episode_steps: int | None = None
    """Steps after which a single environment's episode is truncated, whatever its own limit; None: never."""
    agent_ids: bool = False
    """A row says which of several agents acts, also where all have equal spaces; networks are chosen by it."""
    info_columns: tuple[str, ...] = ()
    """Numbers of each step's `info` that a row has too, for the algorithm."""
    parameters: tuple[Values, ...] = ()
    """Parameters of the environment that the episodes have in turn; empty: it stays as it is built."""

    def __call__(self, index: int) -> gymnasium.Env[Any, Any]:
        """Build environment `index`. An exception of a plugin gets a note that names the plugin.

        Where the spaces of the natively vectorised form differ, this is one environment of that form.
        """
        several = self._other_spaces is None and not self._wraps_vectors
        env = self.single(index) if several else self._lone(index)
        limit = self.max_episode_steps
        return env if limit is None or is_limited(env, limit) else EpisodeLimit(env, limit)

    def with_arguments(self, arguments: Mapping[str, Any]) -> EnvBuilder:
        """Return a builder of environments with further arguments, beside those of `env.kwargs` or in their place.

        Raises:
            ConfigError: their source takes none.
        """
        if not arguments:
            return self
        if "kwargs" not in type(self.env).model_fields:
            raise ConfigError(
                f"the environment source {self.env.name!r} takes no arguments for its environments", "env.kwargs"
            )
        own = {**getattr(self.env, "kwargs"), **arguments}  # noqa: B009
        return replace(self, env=self.env.model_copy(update={"kwargs": own}))

    @cached_property
    def several_agents(self) -> bool:
        """True for a source of environments in which several agents act: then `agents_env` builds them."""
        return hasattr(self._hooks.plugin("env"), "make_agents_env")

    def agents_env(self, index: int) -> Any:
        """Build environment `index` of a source with several agents: a `MultiAgentEnv` of maze-actors.

        Raises:
            ConfigError: it cannot be built, or a wrapper does not fit the part of an agent.
        """
        if (idle := next((each for each in self._wrappers if _idle(each.plugin, *_FOR_AGENTS)), None)) is not None:
            raise self._never_wraps(idle, "with several agents")
        with settings_kept():
            env = self._hooks.make_agents_env(self.env, self._construction_seed(index), index)
        return wrapped_agents(env, self.env.name, self._wrappers, index, self.max_episode_steps)

    def single(self, index: int) -> gymnasium.Env[Any, Any]:
        """Build environment `index` in its single form, even where the run steps the vectorised one.

        A source that makes vectorised environments only gives one of size one.

        Raises:
            ConfigError: it cannot be built, or several agents act in it.
        """
        if self.several_agents:
            raise ConfigError(
                f"several agents act in the environments of {self.env.name!r}, and one with a single agent is needed",
                "env",
            )
        if self._vector_only:
            return self._lone(index)
        with settings_kept():
            return self._hooks.make_env(self.env, self._construction_seed(index), index, self.purpose)

    def _lone(self, index: int) -> gymnasium.Env[Any, Any]:
        if self._wraps_vectors and not self._vector_only:
            self._insist_on_vectors(self.vectorised and self._single_only is None)
        if (wrapper := self._single_only) is not None:
            raise ConfigError(
                f"{wrapper.name!r} wraps single environments, and {self.env.name!r} makes vectorised ones only",
                wrapper.place,
            )

        env = self._native(1, index)
        if env is None:
            self._insist_on_vectors(False)
            raise PluginError("make_vector_env returned an environment at one call and none at another")
        return lone(env)

    def vector_env(self, num_envs: int) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """Return a natively vectorised environment, or None where the source has none.

        Also returns None, with a warning, where a wrapper supports single environments only. Warns when its spaces
        differ from those of the single form.
        """
        self._check_wrappers()
        if not self.vectorised:
            return None
        env = self._native(num_envs)
        if env is None:
            return None
        if (single := self._single_only) is not None:
            release(env)
            _warn(
                f"{single.place}: {single.name!r} wraps single environments only, so the natively "
                "vectorised form is not used"
            )
            return None
        if self._other_spaces is not None:
            _warn(self._other_spaces)
        return env

    def _native(self, num_envs: int, index: int = 0) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """Return a natively vectorised environment, one with tensors as one with arrays; None: there is none."""
        with settings_kept():
            env = self._hooks.make_vector_env(self.env, num_envs, self._construction_seed(index), self.purpose)
        return None if env is None else on_host(env)

    @cached_property
    def _other_spaces(self) -> str | None:
        """Return how the natively vectorised form's spaces differ from the single form's; None where they are equal.

        Also None where the natively vectorised form is not stepped.
        """
        if self._single_only is not None or not self.vectorised:
            return None
        native = self._native(1)
        if native is None:
            return None
        with releasing(native):
            if self._vector_only:
                return None
            single = self.single(0)
        with releasing(single):
            for name in ("observation_space", "action_space"):
                one, many = getattr(single, name), getattr(native, f"single_{name}")
                if one != many:
                    return (
                        f"the natively vectorised environments have the {name} {many}, but single ones {one}. This "
                        "run uses the vectorised form for training, evaluation and acting. To use single ones: "
                        "--set env.vectorization=single"
                    )
        return None

    @cached_property
    def _single_only(self) -> Member | None:
        """Return the first wrapper that changes single environments but not natively vectorised ones."""
        return next((each for each in self._wrappers if _is_single_only(each)), None)

    @cached_property
    def _vector_only(self) -> bool:
        """Return True for a source that makes no single environments."""
        source = self._hooks.plugin("env")
        return hasattr(source, "make_vector_env") and not hasattr(source, "make_env")

    @cached_property
    def _wraps_vectors(self) -> bool:
        """Return True where a wrapper changes natively vectorised environments alone, whose form is then needed."""
        return any(_idle(each.plugin, "make_env") for each in self._wrappers)

    def _check_wrappers(self) -> None:
        """Raise ConfigError where a wrapper changes environments with several agents alone, and one acts here."""
        for each in () if self.several_agents else self._wrappers:
            if _idle(each.plugin, "make_env", "make_vector_env"):
                raise self._never_wraps(each, "with one agent")

    def _insist_on_vectors(self, there: bool) -> None:
        """Raise ConfigError where a wrapper changes natively vectorised environments alone, and they are not there."""
        for each in self._wrappers:
            if _idle(each.plugin, "make_env") and not there:
                raise self._never_wraps(each, "that are stepped one by one")

    def _never_wraps(self, wrapper: Member, environments: str) -> ConfigError:
        return ConfigError(
            f"{wrapper.name!r} would never be called: it does not wrap environments {environments}, as this run has "
            f"from {self.env.name!r}",
            wrapper.place,
            "Next: leave it out, or use a wrapper for them.",
        )

    @property
    def _wrappers(self) -> list[Member]:
        return [each for each in self._hooks.members if each.kind == "wrapper"]

    def _construction_seed(self, index: int) -> int:
        purpose = zlib.crc32(self.purpose.encode())
        return integer_seed(self.seed, Purpose.ENV_CONSTRUCTION, purpose, index)

    @cached_property
    def _hooks(self) -> Hooks:
        return Hooks.for_envs(self.env, self.wrappers, Metered())

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_hooks", "_single_only")}


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _idle(wrapper: Any, *methods: str) -> bool:
    """Return True for a wrapper that changes environments, and by none of these methods."""
    changing = {name for name in (*_FOR_AGENTS, "make_vector_env") if hasattr(wrapper, name)}
    return bool(changing) and changing.isdisjoint(methods)


def _is_single_only(wrapper: Member) -> bool:
    return hasattr(wrapper.plugin, "make_env") and not hasattr(wrapper.plugin, "make_vector_env")
