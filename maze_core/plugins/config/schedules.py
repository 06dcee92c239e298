"""Numbers of an algorithm that change while a run trains, by a rule of how far it is."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, get_origin

from pydantic import Field, GetCoreSchemaHandler, PrivateAttr, ValidationError, ValidationInfo, model_validator
from pydantic_core import core_schema

from maze_core.base.errors import RunError, combined
from maze_core.plugins import discovery
from maze_core.plugins.base import origin
from maze_core.plugins.config.base import ConfigModel
from maze_core.plugins.config.raw import beginning_at

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


class Moment(NamedTuple):
    """How far a run is before an update."""

    run: float
    """The part of the configured run that is done, 0 to 1; 0 where its end is open."""
    steps: float
    """Environment steps."""
    epochs: float
    """Epochs, with the finished part of the one under way."""


class Schedule(ConfigModel):
    """A rule for a number. A class of your own has fields as parameters, and defines `value`."""

    schedule: str = ""
    """`constant`, `linear`, `cosine`, `steps`, or a class of your own as `module:Class`."""
    _range: tuple[float, float, bool] = PrivateAttr(default=(-math.inf, math.inf, False))

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        name = next((name for name, shape in SHAPES.items() if shape is cls), origin(cls))
        return {**data, "schedule": name} if isinstance(data, dict) else data

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(self.schedule)

    @abstractmethod
    def value(self, at: Moment) -> float:
        """Return the number of a moment, which depends on nothing else."""

    def ends(self) -> tuple[float, ...]:
        """Return numbers that the parameter must be able to have."""
        return (self.value(Moment(0.0, 0.0, 0.0)),)

    def of(self, low: float, high: float, whole: bool) -> Self:
        """Return the rule for a parameter of this range."""
        if wrong := [each for each in self.ends() if not low <= each <= high]:
            raise ValueError(f"must have numbers from {low:g} to {high:g}, got {wrong[0]:g}")
        bound = self.model_copy()
        bound._range = low, high, whole
        return bound

    def rule(self) -> Callable[[Moment], float]:
        """Return the function that gives the number of a moment, rounded where the parameter is a whole one.

        It raises RunError where the parameter cannot have it. Keep it: reading the range of a schedule takes longer
        than the rest.
        """
        (low, high, whole), value, name = self._range, self.value, self.schedule

        def number(at: Moment) -> float:
            found = value(at)
            if not low <= found <= high or math.isinf(found):
                raise RunError(f"the schedule {name} gives {found:g}, not a number from {low:g} to {high:g}")
            return round(found) if whole else float(found)

        return number


class Constant(Schedule):
    """The same number at all times."""

    from_: float = Field(validation_alias="from", serialization_alias="from")

    def value(self, at: Moment) -> float:
        """Return the number."""
        return self.from_


class Linear(Constant):
    """From one number to another in a line."""

    to: float
    over: Literal["run", "steps", "epochs"] = "run"
    """What counts: the part of the run that is done (0 to 1), environment steps, or epochs."""
    begin: Annotated[float, Field(ge=0)] = 0.0
    """Where the change begins, in units of `over`."""
    end: Annotated[float, Field(gt=0)] = 1.0
    """Where the change ends."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.over != "run" and "end" not in self.model_fields_set:
            raise ValueError(f"must have an `end`, in {self.over}")
        if self.begin >= self.end or (self.over == "run" and self.end > 1):
            raise ValueError("must have begin < end, at most 1, which is the end of the run, unless `over` is another")
        return self

    def done(self, at: Moment) -> float:
        """Return the part of the change that is done, 0 to 1."""
        now: float = getattr(at, self.over)
        return min(1.0, max(0.0, (now - self.begin) / (self.end - self.begin)))

    def value(self, at: Moment) -> float:
        """Return the number of a moment."""
        return self.from_ + self.done(at) * (self.to - self.from_)

    def ends(self) -> tuple[float, ...]:
        """Return both numbers."""
        return self.from_, self.to


class Cosine(Linear):
    """From one number to another along half a cosine: slowly at both ends."""

    def done(self, at: Moment) -> float:
        """Return the part of the change that is done, 0 to 1."""
        return (1 - math.cos(math.pi * super().done(at))) / 2


class Steps(Constant):
    """Another number from some moments on."""

    over: Literal["run", "steps", "epochs"] = "run"
    values: Annotated[tuple[tuple[float, float], ...], Field(min_length=1)]
    """Moments in units of `over`, each with the number from then on: `[[0.5, 0.1], [0.8, 0.05]]`."""

    def value(self, at: Moment) -> float:
        """Return the number of a moment."""
        passed = [each for each in self.values if each[0] <= getattr(at, self.over)]
        return max(passed)[1] if passed else self.from_

    def ends(self) -> tuple[float, ...]:
        """Return all numbers."""
        return self.from_, *(number for _, number in self.values)


SHAPES: Mapping[str, type[Schedule]] = {"constant": Constant, "linear": Linear, "cosine": Cosine, "steps": Steps}
"""The schedules that come with Maze, by name."""


class Schedulable:
    """Marks a number of an algorithm's `Config` that may be a schedule.

        clip_range: Annotated[float, Field(gt=0), SCHEDULABLE] = 0.2

    The algorithm reads `self.config.clip_range` whenever it needs the number, and keeps none.
    """

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Return a schema that takes the number or a schedule; one may end at an open bound."""
        number: Any = handler(source)
        low, high = number.get("ge", number.get("gt", -math.inf)), number.get("le", number.get("lt", math.inf))

        def check(value: Any, as_number: Any, info: ValidationInfo) -> Any:
            found = _schedule(value, info.context or discovery.load) if isinstance(value, Mapping) else value
            return found.of(low, high, number["type"] == "int") if isinstance(found, Schedule) else as_number(value)

        as_written = core_schema.plain_serializer_function_ser_schema(written)
        return core_schema.with_info_wrap_validator_function(check, number, serialization=as_written)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        """Return a schema of JSON."""
        return {"anyOf": [handler(schema["schema"]), {"type": "object", "title": "Schedule"}]}


SCHEDULABLE = Schedulable()


def by_default(schedule: Schedule) -> Any:
    """Return a field of a `Config` whose default is a schedule."""
    return Field(schedule)


def _schedule(value: Mapping[str, Any], load: discovery.Loader) -> Schedule:
    """Return the schedule that a mapping describes."""
    from maze_core.plugins.config.explain import explain, nearest  # for messages

    name = str(value.get("schedule", ""))
    shape: type[Schedule] | None = load("schedule", name) if ":" in name else SHAPES.get(name)
    if shape is None:
        raise ValueError(f"must name its `schedule`; {nearest(name, SHAPES)}; a class of your own is module:Class")
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise ValueError(str(combined(explain(error, shape, "", value)))) from None


def filled_in(value: Any, field: FieldInfo) -> Any:
    """Return what describes a schedule with what the field's default says, such as where it begins; others as they are.

    Raises:
        ValueError: the field takes no schedule.
    """
    if not takes_schedule(field):
        if isinstance(value, Schedule) or ("schedule" in value and not _has((field.annotation,), dict)):
            raise ValueError("keeps its value while a run trains: it takes no schedule")
        return value
    if isinstance(value, Schedule):
        return value
    default = written(field.default)
    if isinstance(default, dict) and "schedule" not in value:
        return {**default, **value}
    return beginning_at(default, value)


def takes_schedule(field: FieldInfo) -> bool:
    """Return True for a field of a `Config` that may be a schedule."""
    return _has((*field.metadata, field.annotation), Schedulable)


def _has(within: Iterable[Any], kind: type[Any]) -> bool:
    """Return True where an annotation, or a part of it, is of a kind."""
    return any(
        isinstance(each, kind)
        or get_origin(each) is kind
        or _has((*getattr(each, "__metadata__", ()), *getattr(each, "__args__", ())), kind)
        for each in within
    )


def written(value: Any) -> Any:
    """Return a schedule as a file has it, and any other value as it is."""
    return value.model_dump(mode="json", by_alias=True) if isinstance(value, Schedule) else value
