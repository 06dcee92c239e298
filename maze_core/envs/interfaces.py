"""Which objects are environments, and those of other interfaces as environments of gymnasium.

Another distribution, maze-foreign-envs, converts the latter, and adapts natively vectorised ones. maze-actors has those
with several agents.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import gymnasium
import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.plugins.extensions import installed
from maze_core.plugins.other_interfaces import is_of_dm_env, is_of_gym

if TYPE_CHECKING:
    from maze_core.envs.vector import VectorEnv
    from maze_core.plugins.members import Member

INTERFACES = "maze.interfaces"
"""The entry-point group for other interfaces: `converted`, called with an object and whether its randomness was fixed;
`maker`, `native`, `lone`, `on_host`, `agents`, `wrapped_agents` and `lasting_parts`, called as the functions here."""
Maker = Callable[[Mapping[str, Any], int], tuple[Any, int | None]]
"""Takes arguments and a seed; returns an environment of gymnasium and its registered time limit."""
_BASES = {"gymnasium": "Env", "gym": "Env", "dm_env": "Environment"}
"""The base class of environments, by package."""
_MAKERS = ("bsuite", "grid2op", "gym")
"""Packages that make environments from an id, and need the distribution for it."""


def as_gymnasium(env: Any, old_api: bool | None = None, seeded: bool = False) -> Any:
    """Return an environment of gymnasium for one of gym, of dm_env, or with an old reset; anything else as it is.

    Args:
        env: any object.
        old_api: take it for one of gym's old interface; None: where its reset takes no seed.
        seeded: its randomness was fixed when it was built.

    Raises:
        ConfigError: it has another interface, and nothing is installed that converts it.
    """
    other = _other_interface(env, old_api)
    if not other:
        return env
    converted = installed(INTERFACES, "converted")
    if converted is None:
        raise _missing(f"{type(getattr(env, 'unwrapped', env)).__name__} has the interface of {other}", "env")
    return converted(env, seeded)


def maker(module: str, name: str) -> Maker | None:
    """Return what makes the environment `module:name`, whose module is imported; None where nothing known does.

    Raises:
        ConfigError: nothing is installed that knows the module's environments.
    """
    find = installed(INTERFACES, "maker")
    if find is not None:
        found: Maker | None = find(module, name)
        return found
    if module in _MAKERS:
        raise _missing(f"{module} has environments of another interface", "env.id")
    return None


def _other_interface(env: Any, old_api: bool | None) -> str:
    """Return the interface of an object that has to be converted; empty for one that stays as it is."""
    if isinstance(env, gymnasium.Env):
        return "gym, before gymnasium" if (is_old(env) if old_api is None else old_api) else ""
    if is_of_gym(env):
        return "gym"
    return "dm_env" if is_of_dm_env(env) else ""


def _missing(what: str, where: str, distribution: str = "maze-foreign-envs") -> ConfigError:
    from maze_core.plugins.how_to_install import how_to_install

    return ConfigError(f"{what}, which needs {distribution}", where, f"Next: {how_to_install(distribution)}")


def makes_environments(found: Any) -> bool:
    """Return True for a class of environments with one agent, and a function that is annotated to return one.

    It is decided without a call: a configuration may come from others, and must not call anything else.
    """
    kind = _made(found)
    return kind is not None and _is_environment(kind) and not (kind is found and inspect.isabstract(found))


def vector_class(found: Any) -> Any:
    """Return a class of vectorised environments, which is built with `num_envs`; None for anything else."""
    return found if isinstance(found, type) and issubclass(found, gymnasium.vector.VectorEnv) else None


def lone(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return a single environment for a vectorised one of size one: same spaces, same transitions."""
    return _adapter("lone", _VECTORS)(env)  # type: ignore[no-any-return]


def native(env: gymnasium.vector.VectorEnv[Any, Any, Any], info_columns: Sequence[str] = ()) -> VectorEnv:
    """Return a natively vectorised environment as those that a run steps; `info_columns` as `Algorithm.info_columns`.

    Raises:
        ConfigError: it does not state its autoreset mode, a space is not supported, or nothing is installed that
            adapts it; so for `lone` and `on_host`.
    """
    return _adapter("native", _VECTORS)(env, info_columns)  # type: ignore[no-any-return]


def on_host(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return a natively vectorised environment with NumPy's arrays: the environment itself, unless it has tensors."""
    return _adapter("on_host", _VECTORS)(env)  # type: ignore[no-any-return]


def agents(
    make: Callable[[int], Any],
    copies: int,
    first_index: int = 0,
    *,
    agent_ids: bool = False,
    info_columns: Sequence[str] = (),
) -> Any:
    """Return copies of an environment with several agents, stepped in turn, with a row for each agent of a copy.

    Raises:
        ConfigError: a space is not supported, copies differ, or nothing is installed that steps them.
    """
    step = _of_several("agents")
    return step(make, copies, first_index, agent_ids=agent_ids, info_columns=info_columns)


def wrapped_agents(env: Any, source: str, wrappers: Sequence[Member], index: int, limit: int | None) -> Any:
    """Return environment `index` with several agents, as a source made it, with its wrappers and its time limit.

    Raises:
        PluginError: it is no `MultiAgentEnv`.
        ConfigError: a wrapper does not fit, or nothing is installed that adapts it; so for `lasting_parts`.
    """
    return _of_several("wrapped_agents")(env, source, wrappers, index, limit)


def lasting_parts(env: Any) -> list[Any]:
    """Return the wrappers around the parts of agents that keep a state across episodes, or may do so."""
    return _of_several("lasting_parts")(env)  # type: ignore[no-any-return]


_VECTORS = "the environment is vectorised natively"


def _of_several(name: str) -> Any:
    return _adapter(name, "several agents act in the environment", "maze-actors")


def _adapter(name: str, what: str, distribution: str = "maze-foreign-envs") -> Any:
    found = installed(INTERFACES, name)
    if found is None:
        raise _missing(what, "env", distribution)
    return found


def is_of(found: Any, package: str) -> bool:
    """Return True for a class, or a function that is annotated to return one, that derives from a package's."""
    return any(each.__module__.partition(".")[0] == package for each in getattr(_made(found), "__mro__", ()))


def _made(found: Any) -> type | None:
    """Return a class itself, and for a function the class that it is annotated to return; None where there is none."""
    if isinstance(found, FunctionType):
        try:
            found = get_type_hints(found).get("return")
        except Exception:  # noqa: BLE001 — an annotation may be any expression
            return None
        found = get_origin(found) or found
    return found if isinstance(found, type) else None


def _is_environment(kind: type) -> bool:
    bases = {(each.__module__.partition(".")[0], each.__name__) for each in kind.__mro__}
    return any(base in bases for base in _BASES.items()) and not any(name == "Wrapper" for _, name in bases)


def seeded(constructor: Any, kwargs: Mapping[str, Any], seed: int) -> tuple[Any, bool | None, bool]:
    """Return the environment that a class or function of an older interface makes, as `as_gymnasium` takes it.

    Its `reset` may take no seed, so the constructor gets one where it has an argument of that name.
    """
    fixed = takes_seed(constructor) and _takes_none_later(constructor)
    given = with_arrays(constructor, kwargs)
    return constructor(**({"seed": seed % 2**31, **given} if fixed else given)), None, fixed


def takes_seed(constructor: Any) -> bool:
    """Return True where a class or function has an argument `seed`."""
    try:
        return "seed" in inspect.signature(constructor).parameters
    except (TypeError, ValueError):
        return False


def _takes_none_later(constructor: Any) -> bool:
    return not (isinstance(constructor, type) and issubclass(constructor, gymnasium.Env)) or is_old(constructor)


def with_arrays(constructor: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with an array for each list whose parameter is annotated as one or has one as default."""
    try:
        parameters = inspect.signature(constructor).parameters
    except (TypeError, ValueError):
        return dict(kwargs)
    return {
        name: np.asarray(value) if isinstance(value, list) and _takes_array(parameters.get(name)) else value
        for name, value in kwargs.items()
    }


def _takes_array(parameter: inspect.Parameter | None) -> bool:
    if parameter is None:
        return False
    kind = parameter.annotation
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", "") + str(kind)
    return isinstance(parameter.default, np.ndarray) or "ndarray" in text or "NDArray" in text


def is_old(env: object) -> bool:
    """Return True for an environment whose `reset` takes no seed; none of gymnasium's own is."""
    base = getattr(env, "unwrapped", env)
    return callable(getattr(base, "reset", None)) and "seed" not in arguments_of_reset(base)


def arguments_of_reset(env: Any) -> frozenset[str]:
    """Return which of gymnasium's arguments `reset` takes; wrappers of gym pass on what the innermost one takes."""
    found = parameters_of(getattr(env, "unwrapped", env).reset)
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found.values()):
        return frozenset({"seed", "options"})
    return frozenset({"seed", "options"} & found.keys())


def parameters_of(method: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a method by name; of one that is written in C only `seed`."""
    try:
        return inspect.signature(method).parameters
    except (TypeError, ValueError):  # written in C
        return {"seed": inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY)}
