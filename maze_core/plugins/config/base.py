"""The base of every configuration model."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationInfo, field_validator

from maze_core.plugins import discovery

_MISREAD = (bool, list, tuple, dict)
"""What may be, or hold, `true` where a type wants a number. Most values are something else, and there are thousands."""


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

    def __init_subclass__(cls, **options: Any) -> None:
        """Tell `inspect` which module this file is, as pydantic asks it to find the texts below the fields.

        For each file that it does not know it looks through all modules: 2 % of the time that a short run takes.
        """
        super().__init_subclass__(**options)
        if sys.version_info < (3, 13) and (file := getattr(sys.modules.get(cls.__module__), "__file__", None)):
            inspect.modulesbyfile[file] = cls.__module__

    @field_validator("*", mode="before")
    @classmethod
    def _check_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse integers that neither torch nor numpy can hold, and `true` for a number, which pydantic takes as 1."""
        if not _fits(value):
            raise ValueError("must be a number that fits into 64 bits")
        if isinstance(value, _MISREAD) and _is_misread(value, cls.model_fields[info.field_name or ""].annotation):
            raise ValueError("must be a number" if isinstance(value, bool) else "must hold numbers")
        return value


def _is_misread(value: Any, annotation: Any) -> bool:
    """Return True if a value is `true` or `false` where a type wants a number, or contains it where one is wanted."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_misread(value, arguments[0])
    if origin in (Union, UnionType):
        taking = [each for each in arguments if _takes(each, value)]
        return bool(taking) and all(_is_misread(value, each) for each in taking)
    if isinstance(value, list | tuple) and arguments:
        kinds = [arguments[0]] * len(value) if len(arguments) == 1 or arguments[-1] is ... else arguments
        return any(map(_is_misread, value, kinds))
    if isinstance(value, dict) and len(arguments) == 2:
        return any(_is_misread(each, arguments[1]) for each in value.values())
    return isinstance(value, bool) and annotation in (int, float)


def _takes(annotation: Any, value: Any) -> bool:
    """Return True if a type of a union takes values of this shape."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _takes(get_args(annotation)[0], value)
    if isinstance(value, bool):
        return annotation in (int, float, bool, Any)
    shapes = (list, tuple, Sequence) if isinstance(value, list | tuple) else (dict, Mapping)
    return (origin or annotation) in shapes


def _fits(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < 2**63
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return not isinstance(value, list | tuple) or all(map(_fits, value))


@dataclass(frozen=True)
class _Binding:
    """What a part was validated with. It counts in no comparison of configurations, and no file has it."""

    plugin: Any = field(default=None, compare=False)
    """The class of the plugin, or its stand-in; None: that of the part's name."""
    named: discovery.Loader = field(default=discovery.load, compare=False)
    """Finds the plugins that parameters name."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A loader may hold objects of the program that cannot be sent to another process.
        return _Binding, (self.plugin,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class PluginConfig(ConfigModel):
    """The configuration of one plugin; subclasses add its parameters."""

    name: str = ""
    """The plugin's entry-point name."""
    _binding: _Binding = PrivateAttr(default=_Binding())

    def bound_to(self, plugin: Any, named: discovery.Loader = discovery.load) -> Self:
        """Return this configuration as that of a plugin class, which need not be installed.

        Copies, also those in other processes, are bound to it too.

        Args:
            plugin: the class, or what stands for it; None: that of the installed plugin.
            named: finds the plugins that parameters name.
        """
        copy = self.model_copy()
        copy._binding = _Binding(plugin, named)
        return copy

    def plugin_class(self, kind: str) -> Any:
        """Return the class of the plugin; a configuration that is bound to none is that of an installed plugin.

        Raises:
            ConfigError: no plugin of this kind has the name.
            PluginError: the plugin cannot be used.
        """
        found = self._binding.plugin
        return discovery.load(kind, self.name) if found is None else found

    def named_class(self, kind: str, name: str) -> Any:
        """Return the class of a plugin that a parameter names. Errors as for `plugin_class`."""
        return self._binding.named(kind, name)

    def changes_nothing(self) -> bool:
        """Return True for settings with which the plugin does nothing, such as a factor of 1: the run says so."""
        return False
