"""The base of every configuration model."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


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
    def _check_numbers(cls, value: Any) -> Any:
        """Refuse integers that neither torch nor numpy can hold."""
        if not _fits(value):
            raise ValueError("must be a number that fits into 64 bits")
        return value


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
