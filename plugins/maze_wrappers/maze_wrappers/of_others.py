"""Wrappers of others: any class that can be imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Annotated, Any, ClassVar

import gymnasium
from maze_actors.agents import MultiAgentEnv
from pydantic import Field, JsonValue

from maze_core.base.blame import blame
from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.local_modules import hidden_here
from maze_core.envs.interfaces import with_arrays
from maze_core.envs.mask_forms import check_kept
from maze_core.envs.sources.imports import explained, import_module
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.discovery import describe
from maze_core.plugins.hookspecs import hookimpl
from maze_wrappers.meters import below_meter, has_vector_reward

Env = gymnasium.Env[Any, Any]


class GymnasiumWrapperConfig(PluginConfig):
    """A wrapper class of gymnasium, of another package, or of a module in the current folder."""

    id: str = Field(pattern=r"^[\w.]+:\w+$")
    """The class as `module:Class`, such as `gymnasium.wrappers:TimeAwareObservation`."""
    kwargs: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Arguments of its constructor, after the environment."""


class GymnasiumWrapper(Plugin):
    """Wrap single environments in any `gymnasium.Wrapper`; `--wrappers module:Class` is its short form.

    A class named in a saved run or a file is only run when the command line names it again.

    Raises:
        ConfigError: the class cannot be imported, is not a wrapper, or its constructor refuses the arguments.
    """

    Config: ClassVar[type[PluginConfig]] = GymnasiumWrapperConfig

    def __init__(self, config: GymnasiumWrapperConfig) -> None:
        super().__init__(config)
        self._wrapper = _imported(config.id)

    @hookimpl(wrapper=True)
    def make_env(self, config: PluginConfig, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        try:
            wrapped: Env = below_meter(env, self._wrapped) if has_vector_reward(env) else self._wrapped(env)
        except MazeError:
            raise
        except Exception as exc:
            if isinstance(exc, TypeError) and "argument" in str(exc):
                raise ConfigError(f"{self.config.id}: {exc}", "kwargs") from exc
            if self._takes(env.unwrapped):
                raise _only_bare(self.config.id, exc) from None
            if (told := explained(self.config.id, exc, "id")) is not None:
                raise told from (None if isinstance(exc, ModuleNotFoundError) else exc)
            raise
        check_kept(env, wrapped, self.config.id)
        return wrapped

    @property
    def wrap_agents(self) -> Callable[[MultiAgentEnv], MultiAgentEnv]:
        """Wrap the environment of another package as a whole, with a function that takes such ones.

        Raises:
            AttributeError: it is a class of gymnasium's, which wraps the part of each agent.
        """
        if isinstance(self._wrapper, type):
            raise AttributeError("wrap_agents")
        return self._around

    def _around(self, env: MultiAgentEnv) -> MultiAgentEnv:
        rewrapped = getattr(env, "rewrapped", None)
        if rewrapped is None:
            raise ConfigError(
                f"{self.config.id} wraps PettingZoo's environments, and another wrapper lies below it",
                "id",
                "Next: name it first.",
            )
        whole: MultiAgentEnv = rewrapped(lambda inner: self._wrapper(inner, **self.config.kwargs))
        return whole

    def _wrapped(self, env: Env) -> Env:
        wrapped: Env = self._wrapper(env, **with_arrays(self._wrapper, self.config.kwargs))
        return wrapped

    def _takes(self, env: Env) -> bool:
        try:
            self._wrapped(env)
        except Exception:  # noqa: BLE001 — the constructor may fail in any way
            return False
        return True


def _only_bare(name: str, exc: Exception) -> ConfigError:
    """Return the error about a class that takes an environment, but not with another wrapper around it."""
    place = blame(exc)
    return ConfigError(
        f"{name} takes the environment itself, but not with the layers of gymnasium and Maze around it: {describe(exc)}"
        + (f" ({place})" if place else ""),
        "id",
        "Next: let it use env.unwrapped, or wrap the environment in a function of your own,"
        " def make() -> gymnasium.Env, and name that one: --env my_module:make",
    )


def _of_supersuit(module: str, title: str, found: Any) -> bool:
    """Return True for one of SuperSuit's functions, which wrap environments with one agent or several."""
    return module == "supersuit" and re.fullmatch(r"\w+_v\d+", title) is not None and callable(found)


def _imported(name: str) -> Any:
    """Return the wrapper class `module:Class`."""
    module, _, title = name.partition(":")
    try:
        found = getattr(import_module(module, "id"), title)
    except AttributeError as exc:
        raise ConfigError(f"the module {module!r} has no {title!r}", "id", hidden_here(module)) from exc
    except ImportError as exc:  # of a module that imports its classes when they are asked for
        raise explained(name, exc, "id") or exc from None
    if _of_supersuit(module, title, found):
        return found
    if not (isinstance(found, type) and issubclass(found, gymnasium.Wrapper)):
        hint = "From Python, RunContext(wrappers=[…]) takes any function from environment to environment."
        raise ConfigError(f"{name} is not a class that derives from gymnasium.Wrapper", "id", hint)
    return found
