"""The env source `gymnasium`: environments with one agent, of gymnasium's registry and of other interfaces."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import gymnasium
from pydantic import Field, JsonValue, PositiveInt

from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import goes_along
from maze_core.base.terminal_text import argument, printable, shown
from maze_core.envs.interfaces import (
    Maker,
    as_gymnasium,
    lone,
    maker,
    makes_environments,
    seeded,
    vector_class,
    with_arrays,
)
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.hookspecs import hookimpl


class GymnasiumConfig(PluginConfig):
    """An environment of gymnasium's registry."""

    id: str = Field(min_length=1)
    """The environment's id, such as `CartPole-v1`. `module:Id` first imports the module that registers it, or has a
    class or function of that name. Ids of gym, `gym:CartPole-v0`, and of bsuite, `bsuite:catch/0`, work too."""
    kwargs: Annotated[dict[str, JsonValue], Outside.ARGUMENTS] = Field(default_factory=dict)
    """Arguments of its constructor."""
    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated; none: the registered limit."""
    old_api: bool | None = None
    """The environment has the interface of gym, before gymnasium: `reset` returns the observation alone, or `step` four
    values. none: found out, which fails where `reset` takes a seed."""
    vectorization: Literal["single", "native"] = "single"
    """`native`: use the environment's own vectorised form, if it has one and all wrappers support it; where it has no
    other, that is done anyway. Faster for cheap environments. Its episodes cannot be seeded or replayed one by one, so
    most algorithms resume with new episodes."""


class GymnasiumSource(Plugin):
    """Builds environments with `gymnasium.make`.

    Raises:
        ConfigError: the id is not registered, a dependency is missing, or the constructor refuses the arguments.
    """

    Config: ClassVar[type[PluginConfig]] = GymnasiumConfig

    def __init__(self, config: GymnasiumConfig) -> None:
        super().__init__(config)
        self._make = other_maker(config.id)
        if self._make is None:
            check_env_id(config.id)

    @staticmethod
    def knows(env_id: str) -> bool:
        """Return True for an id that can be built; the module before its colon is imported."""
        try:
            if other_maker(env_id) is None:
                check_env_id(env_id)
        except ConfigError:
            return False
        return True

    @hookimpl
    def make_env(self, config: GymnasiumConfig, seed: int, index: int) -> gymnasium.Env[Any, Any]:
        """Build one environment, without gymnasium's checker: Maze makes its own checks."""
        with _explained(config):
            if self._make is not None:
                return _limited(*self._make(config.kwargs, seed), config)
            if _spec(config).entry_point is None:
                return lone(_vectorised(config, 1))
            kwargs = with_arrays(_import_entry_point(config.id), config.kwargs)
            tame_mujoco()
            try:
                made = gymnasium.make(config.id, config.max_episode_steps, disable_env_checker=True, **kwargs)
            except TypeError as exc:  # it refuses objects of other interfaces
                found = last_locals(exc).get("env")
                made = as_gymnasium(found, config.old_api)
                if made is found:
                    raise
                return _limited(made, gymnasium.spec(config.id.rpartition(":")[2]).max_episode_steps, config)
            return cast("gymnasium.Env[Any, Any]", as_gymnasium(made, config.old_api))

    @hookimpl
    def make_vector_env(
        self, config: GymnasiumConfig, num_envs: int, seed: int
    ) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """Build the environment's own vectorised form; None where there is another, and `vectorization` is `single`."""
        alone = _named_class(config) is not None or (self._make is None and _spec(config).entry_point is None)
        if config.vectorization == "single" and not alone:
            return None
        with _explained(config):
            if not alone and (self._make is not None or _spec(config).vector_entry_point is None):
                raise ConfigError(f"{config.id} has no vectorised form", "env.vectorization", "Set it to single.")
            whole: gymnasium.vector.VectorEnv[Any, Any, Any] = _vectorised(config, num_envs)
            return whole


def _spec(config: GymnasiumConfig) -> gymnasium.envs.registration.EnvSpec:
    """Return the registered one: `gymnasium.spec` does not accept `module:Id`, whose module is imported already."""
    return gymnasium.spec(config.id.rpartition(":")[2])


def _vectorised(config: GymnasiumConfig, num_envs: int) -> Any:
    kwargs: dict[str, Any] = dict(config.kwargs)
    if config.max_episode_steps is not None:
        kwargs["max_episode_steps"] = config.max_episode_steps
    try:
        if (named := _named_class(config)) is not None:
            return named(num_envs=num_envs, **kwargs)
        return gymnasium.make_vec(config.id, num_envs, "vector_entry_point", **kwargs)
    except TypeError as exc:
        if "'max_episode_steps'" not in str(exc):
            raise
        problem = f"the vectorised form of {config.id} takes no time limit: {exc}"
        raise ConfigError(problem, "env.max_episode_steps", "Next: --set env.vectorization=single") from exc


def _named_class(config: GymnasiumConfig) -> Any:
    """Return the class of vectorised environments that `module:Class` names, whose module is imported; else None."""
    module, _, name = config.id.rpartition(":")
    return None if name in gymnasium.registry else vector_class(vars(sys.modules.get(module, object)).get(name))


def other_maker(env_id: str) -> Maker | None:
    """Return what makes an environment that gymnasium's registry does not have; None where nothing does.

    That is a class or a function of the module before the colon, or an id of another package. The module is imported.

    Raises:
        ConfigError: it cannot be imported.
    """
    check_no_file(env_id)
    module, colon, name = env_id.rpartition(":")
    if not colon:
        return None
    from maze_core.envs.sources.failures import missing_source

    if advice := missing_source(env_id):
        raise ConfigError(f"no installed env source has {shown(env_id)}", "env.id", advice)
    found = _imported(module)
    if name in gymnasium.registry:
        return None
    member = vars(found).get(name)
    if (several := vector_class(member)) is not None:
        return lambda kwargs, seed: (lone(several(num_envs=1, **kwargs)), None)
    if makes_environments(member):
        return lambda kwargs, seed: (as_gymnasium(*seeded(member, kwargs, seed)), None)
    return maker(module, name)


def check_no_file(env_id: str) -> None:
    """Raise ConfigError for an id that names a file, or a member of one as an attribute; it says what is meant."""
    place, _, name = env_id.rpartition(":") if ".py:" in env_id else (env_id, "", "")
    path = Path(place)
    if path.suffix == ".py":
        away = "" if path.parent == Path() else f", with PYTHONPATH={argument(path.parent)}"
        hint = f"Next: --env {argument(':'.join([path.stem, name or 'NAME']))}{away}"
        raise ConfigError(f"{shown(env_id)} names a file, and a module is needed", "env.id", hint)
    module, _, member = env_id.partition(".")
    if member and ":" not in env_id and is_module_here(module):
        hint = f"Next: --env {printable(module)}:{printable(member)}"
        raise ConfigError(f"{shown(env_id)} is a member of a module", "env.id", hint)


def is_module_here(name: str) -> bool:
    """Return True for the name of a module of the current folder, which is not imported."""
    return name.isidentifier() and any(each.name == f"{name}.py" for each in Path().iterdir())


def _limited(env: Any, limit: int | None, config: GymnasiumConfig) -> gymnasium.Env[Any, Any]:
    """Return an environment with the configured time limit, else its registered one."""
    steps = config.max_episode_steps or limit
    if steps is None or not isinstance(env, gymnasium.Env):
        return cast("gymnasium.Env[Any, Any]", env)
    return gymnasium.wrappers.TimeLimit(env, steps)


def _import_entry_point(env_id: str) -> Any:
    """Import the module that defines an environment, and with it the simulator; return what will build it."""
    module, _, name = env_id.rpartition(":")
    spec = gymnasium.registry[name]
    wrappers = [each.entry_point for each in spec.additional_wrappers]
    for place in (spec.entry_point, spec.vector_entry_point, *wrappers):
        if isinstance(place, str):
            goes_along(module, place.partition(":")[0])
    if isinstance(spec.entry_point, str):
        return gymnasium.envs.registration.load_env_creator(spec.entry_point)
    return spec.entry_point


@contextmanager
def _explained(config: GymnasiumConfig) -> Iterator[None]:
    """Turn exceptions of `make` into errors of the configuration or of the environment."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as exc:  # noqa: BLE001 — whatever the code of others raises
        from maze_core.envs.sources.failures import explanation

        error, cause = explanation(config, exc)
        raise error from cause


def last_locals(exc: BaseException) -> dict[str, Any]:
    """Return the local variables where an exception was raised: `make` does not name the object that it refuses."""
    last = exc.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return {} if last is None else dict(last.tb_frame.f_locals)


def check_env_id(env_id: str) -> None:
    """Check that an id is registered, importing the module before its colon; nothing is built.

    Raises:
        ConfigError: it is not registered; names the nearest ids.
    """
    module, colon, name = env_id.rpartition(":")
    if colon:
        _imported(module)
    if name not in gymnasium.registry:
        from maze_core.envs.sources.failures import suggestion

        hint = suggestion(name, module)
        raise ConfigError(f"no environment {shown(name)} is registered", where="env.id", hint=hint)


def _imported(module: str) -> Any:
    from maze_core.envs.sources.imports import import_module  # most ids name no module

    return import_module(module, "env.id")


def made_in(module: str, env_id: str) -> bool:
    """Return True if an environment of gymnasium's registry is defined in a module's package."""
    entry_point = getattr(gymnasium.registry.get(env_id), "entry_point", "")
    where = entry_point if isinstance(entry_point, str) else getattr(entry_point, "__module__", "")
    return where.partition(":")[0].partition(".")[0] == module.partition(".")[0]


def tame_mujoco() -> None:
    """Turn this process's MuJoCo warnings into Python warnings, without deprecations, where MuJoCo is imported.

    By default MuJoCo prints every warning and appends it to `MUJOCO_LOG.TXT` in the current folder. Users cannot
    change the models that environments bring, so deprecations are dropped.
    """
    mujoco = sys.modules.get("mujoco")
    if mujoco is not None and mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(message: str) -> None:
    if "deprecated" not in message:
        warnings.warn(f"MuJoCo: {message}", RuntimeWarning, stacklevel=2)
