"""Sets RLlib's parameters by name, each with the method of RLlib's configuration that takes it.

Their names and types are checked before, by the algorithm's configuration.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args, get_origin

from maze_core import ConfigError, RunError
from maze_core.base.errors import CheckpointError
from maze_core.plugins.discovery import describe
from maze_rllib.parameters import signatures


def apply(config: Any, settings: Mapping[str, Any], changed: Container[str] = ()) -> None:
    """Set parameters of RLlib's configuration of an algorithm; `changed` are those with other values than the defaults.

    Raises:
        ConfigError: the installed RLlib, another one than the plugin requires, no longer has one of those.
    """
    known = signatures(config)
    calls: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        if name not in known:
            if name in changed:
                raise ConfigError("the installed RLlib does not have it", f"algorithm.{name}", "Next: leave it out")
            continue
        method, parameter = known[name]
        pair = isinstance(value, list) and _takes_tuple(parameter.annotation)
        calls.setdefault(method, {})[name] = tuple(value) if pair else value
    for method, values in calls.items():
        getattr(config, method)(**values)


def _takes_tuple(annotation: Any) -> bool:
    """Return True for parameters that are tuples, such as the range of n_step, which no file can hold."""
    kinds = [get_origin(each) or each for each in get_args(annotation)]
    return tuple in kinds and list not in kinds


@contextmanager
def blamed(settings: Mapping[str, Any], otherwise: str = "", hint: str | None = None) -> Iterator[None]:
    """Name the parameters that are set where RLlib fails with them: many of their values only RLlib can check.

    `otherwise` is the setting to name where there are none, and `hint` what to do next.

    Raises:
        ConfigError: RLlib raised something that is no error of Maze.
    """
    names = ", ".join(f"algorithm.{name}" for name in settings)
    try:
        yield
    except (ConfigError, CheckpointError):
        raise
    except RunError as error:
        if names and "RLlib failed" in str(error):
            error.add_note(f"The run sets {names}, which may be the reason.")
        raise
    except Exception as error:
        if not names and not otherwise:
            raise
        problem = "RLlib fails with it" if "," not in names else "RLlib fails with these"
        raise ConfigError(f"{problem}: {describe(error)[:500]}", names or otherwise, hint) from error
