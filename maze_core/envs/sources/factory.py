"""Environments and wrappers from callables passed from Python."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar

import gymnasium
from pydantic import PositiveInt

from maze_core.base.errors import MazeError
from maze_core.envs.interfaces import as_gymnasium, lone, vector_class
from maze_core.envs.mask_forms import check_kept
from maze_core.envs.sources.imports import explained
from maze_core.plugins.base import Plugin, given, not_given
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl

Env = gymnasium.Env[Any, Any]
EnvFactory = Callable[[], Env]
"""A function without arguments, or an environment class, that returns a new environment at each call. A class of
vectorised environments is called with `num_envs`."""
EnvWrapper = Callable[[Env], Env]
"""A function, or a gymnasium wrapper class, that takes an environment and returns the wrapped one."""


class FactoryConfig(PluginConfig):
    """An environment that was passed as a function."""

    name: str = "factory"
    """The plugin's name."""
    factory: str = ""
    """Where the function is defined, as `module:name`. For information only: it is never imported from here."""
    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated; none: the environment's own limit."""
    old_api: bool | None = None
    """The environment has the interface of gym, before gymnasium; none: found out."""


class FactorySource(Plugin):
    """Builds environments with a function passed from Python.

    Raises:
        ConfigError: there is no function, for example when a recorded configuration is opened without it.
    """

    Config: ClassVar[type[PluginConfig]] = FactoryConfig

    def __init__(self, config: FactoryConfig, factory: EnvFactory | None = None) -> None:
        super().__init__(config)
        if factory is None:
            way_out = ", or register it with gymnasium and name it `module:Id`"
            raise not_given("environment", config.factory, "env", way_out)
        self._factory = factory

    @staticmethod
    def of(factory: EnvFactory) -> Any:
        """Return a stand-in for this class, as in `FactoryConfig().bound_to(FactorySource.of(make))`."""
        return given(FactorySource, factory)

    @hookimpl
    def make_env(self, config: FactoryConfig, seed: int, index: int) -> gymnasium.Env[Any, Any]:
        """Call the function."""
        # A plain PluginConfig has neither of them.
        old_api, limit = (getattr(config, name, None) for name in ("old_api", "max_episode_steps"))
        several = vector_class(self._factory)
        built = self._factory() if several is None else lone(several(num_envs=1))
        env: gymnasium.Env[Any, Any] = as_gymnasium(built, old_api)
        if limit is None or not isinstance(env, gymnasium.Env):  # the builder says what is no environment
            return env
        return gymnasium.wrappers.TimeLimit(env, limit)

    @hookimpl
    def make_vector_env(
        self, config: FactoryConfig, num_envs: int, seed: int
    ) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """Build a class of vectorised environments; None for others, and where a time limit wraps single ones."""
        several = vector_class(self._factory)
        return None if several is None or config.max_episode_steps is not None else several(num_envs=num_envs)


class FunctionWrapper(Plugin):
    """Wraps every environment in a function passed from Python."""

    def __init__(self, config: PluginConfig, wrap: EnvWrapper) -> None:
        super().__init__(config)
        self._wrap = wrap

    @staticmethod
    def of(wrap: EnvWrapper) -> Any:
        """Return a stand-in for this class, bound to `wrap`."""
        return given(FunctionWrapper, wrap)

    @hookimpl(wrapper=True)
    def make_env(self, config: PluginConfig, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment with the function."""
        env = yield
        name = getattr(self._wrap, "__name__", "a wrapper")
        try:
            wrapped = self._wrap(env)
        except MazeError:
            raise
        except Exception as exc:
            if (told := explained(name, exc, None)) is not None:
                raise told from exc
            raise
        check_kept(env, wrapped, name)
        return wrapped
