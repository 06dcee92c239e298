"""Wraps environments in a callable passed from Python."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import gymnasium

from maze_core.base.errors import MazeError
from maze_core.envs.masks import check_kept
from maze_core.envs.sources.imports import explained
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.plugins.python_objects import given

Env = gymnasium.Env[Any, Any]
EnvWrapper = Callable[[Env], Env]
"""A function, or a gymnasium wrapper class, that takes an environment and returns the wrapped one."""


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
