"""The plain arguments of the Python API: numbers, flags, and what a configuration says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.envs.wrappers.gymnasium import GymnasiumWrapperConfig

if TYPE_CHECKING:
    from maze_core.plugins.config.run import RunConfig


def as_count(where: str, value: Any) -> int:
    """Return a number of epochs; 0 for None."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ConfigError(f"must be a whole number, 0 or more, got {value!r:.80}", where)
    return int(value)


def check_options(*, episodes: int | None = None, workers: int | None = None, **flags: bool | None) -> None:
    """Check options of a call: numbers of 1 or more, and flags; None: not given.

    Raises:
        ConfigError: one is something else, such as a number in place of a flag.
    """
    for name, count in {"episodes": episodes, "workers": workers}.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            raise ConfigError(f"must be a whole number, 1 or more, got {count!r:.80}", name)
    for name, flag in flags.items():
        if not isinstance(flag, bool | None):
            raise ConfigError(f"must be True or False, got {flag!r:.80}", name)


def wrapper_classes(config: RunConfig) -> list[str]:
    """Return the wrapper classes of a configuration as overrides; a saved run may name only these."""
    wrappers = enumerate(config.wrappers)
    return [f"wrappers.{i}.id={each.id}" for i, each in wrappers if isinstance(each, GymnasiumWrapperConfig)]
