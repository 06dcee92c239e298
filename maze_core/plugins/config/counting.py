"""Settings that count only beside another one, and those of a run that therefore do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.schedules import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from maze_core.plugins.config.run import RunConfig

_OFF: tuple[Any, ...] = (None, False, 0, "none", (), {})
_NOT_NAMED = ("name", "keys", "exclude")


@dataclass(frozen=True)
class CountsWith:
    """Marks a field, as a part of its annotation, that does nothing unless another setting is on.

        priority_exponent: Annotated[float, CountsWith("prioritized")] = 0.6

    Where the other one is off, a run that sets the field says at its start that it does nothing. Other models than
    those of Maze may lack the other setting; then nothing is said.
    """

    setting: str
    """The other field of the same configuration, or a path in the run's, such as `model.memory`."""
    value: Any = None
    """The value that it must have; None: any but none, false, 0 and empty ones."""

    def why_not(self, path: str, found: Any) -> str | None:
        """Return why the field does nothing beside this value of the setting at `path`; None: it counts."""
        if self.value is None:
            wanted = f"{path}=true" if isinstance(found, bool) else f"{path}, which is {_written(found)}"
            return f"it counts only with {wanted}" if found in _OFF else None
        return f"it counts only with {path}={_written(self.value)}" if found != self.value else None


@dataclass(frozen=True)
class CountsWithout:
    """Marks a field that does nothing where another setting replaces it; as `CountsWith`."""

    setting: str
    """The other field of the same configuration, or a path in the run's."""

    def why_not(self, path: str, found: Any) -> str | None:
        """Return why the field does nothing beside this value of the setting at `path`; None: it counts."""
        return None if found in _OFF else f"{path} replaces it"


class CountsWithNumber(CountsWithout):
    """Marks a field that does nothing where another setting is a schedule."""

    def why_not(self, path: str, found: Any) -> str | None:
        """Return why the field does nothing beside this value of the setting at `path`; None: it counts."""
        return f"{path} is a schedule itself" if isinstance(found, Schedule) else None


def idle_settings(config: RunConfig, usual: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each setting of a run that is not the default and does nothing.

    Args:
        config: the run's.
        usual: the algorithm's defaults for other parts, by part and field.
    """
    parts: dict[str, BaseModel] = {name: part for name, part in config if isinstance(part, BaseModel)}
    parts |= {f"wrappers.{i}": part for i, part in enumerate(config.wrappers)}
    parts |= {f"callbacks.{name}": part for name, part in config.callbacks.items()}
    for place, part in parts.items():
        if isinstance(part, PluginConfig) and part.changes_nothing():
            chosen = ", ".join(f"{name}={_written(value)}" for name, value in part if name not in _NOT_NAMED)
            yield f"{place}: {part.name} changes nothing with {chosen}"
        for name, why in _idle_in(part, place, config):
            if is_set(part, name, usual.get(place, {})):
                yield f"{place}.{name} has no effect: {why}"


def is_set(part: BaseModel, name: str, usual: Mapping[str, Any]) -> bool:
    """Return True if a field differs from its default, and from the one that `usual` has."""
    default = type(part).model_fields[name].get_default(call_default_factory=True)
    return getattr(part, name) not in (default, usual.get(name, default))


def _idle_in(part: BaseModel, place: str, config: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield the fields of a part that do nothing whatever their values are, and why."""
    for name, field in type(part).model_fields.items():
        for condition in field.metadata:
            if isinstance(condition, CountsWith | CountsWithout):
                elsewhere, _, other = condition.setting.rpartition(".")
                owner = getattr(config, elsewhere) if elsewhere else part
                path = condition.setting if elsewhere else f"{place}.{other}"
                if hasattr(owner, other) and (why := condition.why_not(path, getattr(owner, other))):
                    yield name, why


def _written(value: Any) -> str:
    """Return a value as a user would type it."""
    return "none" if value is None else str(value)
