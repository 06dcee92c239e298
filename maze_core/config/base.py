"""The base of every configuration model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ConfigModel(BaseModel):
    """A frozen, closed record: unknown keys are refused, values never change, every field is described.

    A field's description is the string literal below it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


class PluginConfig(ConfigModel):
    """The configuration of one plugin; subclasses add its parameters."""

    name: str = ""
    """The plugin's entry-point name."""
