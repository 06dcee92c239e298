"""Parameters of environments that change from episode to episode: what environments declare, and what sets them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.terminal_text import shown
from maze_core.envs.parameters import SEED
from maze_core.plugins.closing import releasing
from maze_core.plugins.discovery import describe

if TYPE_CHECKING:
    from maze_core.base.seeding import Values
    from maze_core.envs.builder import EnvBuilder

DECLARED, SETTER = "curriculum", "set_parameters"
"""What an environment declares: a mapping of ranges by name, and a method that takes values by keyword."""


@dataclass(frozen=True, slots=True)
class IntRange:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class FloatRange:
    """Numbers from `low` to `high`."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values."""

    values: tuple[bool | int | float | str, ...]


Range = IntRange | FloatRange | Choice


def declared(builder: EnvBuilder) -> dict[str, Range]:
    """Return the ranges that the environments of a builder declare in their attribute `curriculum`; empty: none.

    Raises:
        ConfigError: the attribute is something else.
    """
    with releasing(_built(builder)) as env:
        found: Any = next((given for each in _layers(env) if (given := getattr(each, DECLARED, None)) is not None), {})
    if not isinstance(found, Mapping) or not all(map(_is_range, found.values())):
        raise ConfigError(
            f"the environment's {DECLARED} is {shown(found)}, not a mapping of ranges by name",
            "env",
            f"Such as {DECLARED} = {{'size': IntRange(3, 20)}}, from maze_environments.parameters.",
        )
    return {str(name): each for name, each in found.items()}


def _is_range(found: Any) -> bool:
    if isinstance(found, Choice):
        return bool(found.values) and all(isinstance(each, bool | int | float | str) for each in found.values)
    if not isinstance(found, IntRange | FloatRange) or found.low == found.high:
        return False
    kinds = int if isinstance(found, IntRange) else int | float
    return all(
        isinstance(each, kinds) and type(each) is not bool and isfinite(each) for each in (found.low, found.high)
    )


def tried(builder: EnvBuilder, values: Values) -> None:
    """Build an environment with parameters, and begin an episode.

    Raises:
        ConfigError: it does not take them, or its spaces depend on them.
    """
    with releasing(_built(builder)) as env:
        spaces = _spaces(env)
        with _telling(values):
            arguments = Setter(env).set(values)
            if not arguments:
                env.reset(seed=values.get(SEED, 0))
                _check_spaces(env, spaces, values)
                return
        with releasing(rebuilt(builder, 0, arguments, env, lambda make, _: _built(make))) as other, _telling(values):
            Setter(other).set(values)
            other.reset(seed=values.get(SEED, 0))
            _check_spaces(other, spaces, values)


@contextmanager
def _telling(values: Values) -> Iterator[None]:
    """Turn errors into those about parameters."""
    said = f"the environment does not take {_said(values)}"
    try:
        yield
    except MazeError as error:
        hint = None if getattr(error, "hint", None) else _WAYS
        raise ConfigError(f"{said}: {error}", "env", hint) from error
    except Exception as error:
        raise ConfigError(f"{said}: {describe(error)}", "env", _WAYS) from error


_WAYS = "A parameter is an argument of its constructor, or a name in `curriculum` that is an attribute, too."


def _said(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())


def _spaces(env: Any) -> dict[str, Any]:
    names = ("observation_space", "action_space", "observation_spaces", "action_spaces")
    return {name: getattr(env, name, None) for name in names}


def _check_spaces(env: Any, before: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name, space in _spaces(env).items():
        if space != before[name]:
            raise ConfigError(
                f"with {_said(values)} the {name} is {space}, and was {before[name]}",
                "env",
                "Networks have one size: let the environment pad its observations to the largest.",
            )


def _built(builder: EnvBuilder) -> Any:
    return builder.agents_env(0) if builder.several_agents else builder(0)


def _layers(env: Any) -> Iterator[Any]:
    """Yield the wrappers of an environment of any kind from the outside in, then the environment itself."""
    while env is not None:
        yield env
        env = getattr(env, "__dict__", {}).get("env")


class Setter:
    """Sets the parameters that an environment takes while it runs.

    It takes those that it declares, and those that its method `set_parameters` names. Without that method they are its
    attributes; what it has not is left to its constructor.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._owner = next((each for each in _layers(env) if hasattr(each, DECLARED) or hasattr(each, SETTER)), None)
        self._setter = getattr(self._owner, SETTER, None)
        self._names = set(getattr(self._owner, DECLARED, ())) | _named(self._setter)

    def set(self, values: Values) -> dict[str, Any]:
        """Set them, and return the others: those of its constructor."""
        own = {name: value for name, value in values.items() if name in self._names}
        if callable(self._setter):
            self._setter(**own) if own else None
        else:
            own = {name: value for name, value in own.items() if hasattr(self._owner, name)}
            for name, value in own.items():
                setattr(self._owner, name, value)
        return {name: value for name, value in values.items() if name not in own and name != SEED}


def _named(setter: Any) -> set[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(setter).parameters.values() if callable(setter) else ()
    return {each.name for each in signature if each.kind in kinds}


def rebuilt(make: Any, index: int, arguments: Mapping[str, Any], old: Any, build: Callable[[Any, int], Any]) -> Any:
    """Return environment `index` with other arguments of its constructor.

    Args:
        make: the builder.
        index: the environment's number.
        arguments: the arguments.
        old: the environment that it replaces.
        build: returns the environment of a builder and a number.

    Raises:
        ConfigError: there is no such argument, or the spaces would change.
    """
    if arguments and not hasattr(make, "with_arguments"):
        raise ConfigError(f"this environment has no parameter {', '.join(map(shown, arguments))}", "env")
    try:
        new = build(make.with_arguments(arguments) if arguments else make, index)
    except ConfigError as error:
        raise ConfigError(f"the environment does not take {_said(arguments)}: {error.message}", "env", _WAYS) from error
    _check_spaces(new, _spaces(old), arguments)
    return new
