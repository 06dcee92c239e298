"""The base of every configuration model."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class ConfigModel(BaseModel):
    """A frozen, closed record: unknown keys are refused, and values never change.

    Every field is described by the string literal below it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        populate_by_name=True,  # what is written has the fields' names, and is read whatever aliases they have
    )

    @field_validator("*", mode="before")
    @classmethod
    def _check_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse integers that neither torch nor numpy can hold, and `true` for a number, which pydantic takes as 1."""
        if not _fits(value):
            raise ValueError("must be a number that fits into 64 bits")
        if isinstance(value, bool) and _is_number(cls.model_fields[info.field_name or ""].annotation):
            raise ValueError("must be a number")
        return value


def _is_number(annotation: Any) -> bool:
    """Return True for the type of a number, which may be None instead."""
    if get_origin(annotation) is Annotated:
        return _is_number(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return all(each is NoneType or _is_number(each) for each in get_args(annotation))
    return annotation in (int, float)


def _fits(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < 2**63
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return not isinstance(value, list | tuple) or all(map(_fits, value))


class PluginConfig(ConfigModel):
    """The configuration of one plugin; subclasses add its parameters."""

    name: str = ""
    """The plugin's entry-point name."""
