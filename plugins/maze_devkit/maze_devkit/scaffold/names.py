"""Names of a new plugin: which are allowed, and what is derived from them."""

from __future__ import annotations

import builtins
import importlib.util
import keyword
import re
from dataclasses import dataclass

import maze_core
from maze_core import ConfigError
from maze_core.base.bundled import publisher
from maze_core.plugins import discovery
from maze_devkit.scaffold.kinds import STARTERS, VARIANTS, Starter

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
LONGEST = 30
_RESERVED = {"core", "none", "null", "true", "false", "yes", "no", "on", "off", "auto"}
"""`maze-core` is the core; the others are values in YAML or on the command line."""


@dataclass(frozen=True)
class Names:
    """The names of a plugin, its package and its classes."""

    kind: str
    name: str
    """The entry point's name, which users type."""
    variant: str = ""
    """Key of `VARIANTS`; empty: the usual starter of the kind."""

    @property
    def template(self) -> str:
        """The name of the starter's template."""
        return self.variant or self.kind

    @property
    def starter(self) -> Starter:
        """The plugin to start from."""
        return VARIANTS[self.variant] if self.variant else STARTERS[self.kind]

    @property
    def distribution(self) -> str:
        """The distribution, and the folder it is written to: `maze-my-name`."""
        return f"maze-{self.name.replace('_', '-')}"

    @property
    def package(self) -> str:
        """The Python package: `maze_my_name`."""
        return f"maze_{self.name}"

    @property
    def camel(self) -> str:
        """The prefix of class names: `MyName`."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def plugin_class(self) -> str:
        """The plugin's class, `MyNameWrapper`; for a command, its function."""
        if self.kind == "command":
            return "command"
        suffix = self.starter.suffix
        return self.camel.removesuffix(suffix) + suffix

    @property
    def config_class(self) -> str:
        """The class of its parameters: `MyNameConfig`."""
        return f"{self.camel}Config"


def new_names(kind: str, name: str, variant: str = "") -> Names:
    """Return the names of a new plugin; `variant` is a key of `VARIANTS`, or empty.

    Raises:
        ConfigError: the kind is unknown; the name is malformed, reserved, or used by an installed package.
    """
    if kind not in STARTERS:
        raise ConfigError(f"there is no kind {kind!r}; kinds: {', '.join(STARTERS)}", "KIND")
    if variant and VARIANTS[variant].kind != kind:
        raise ConfigError(f"there is one template for the kind {kind}", "--off-policy")
    _check_form(name)
    names = Names(kind, name, variant)
    _check_reserved(names)
    _check_free(names)
    return names


def _check_form(name: str) -> None:
    if NAME.fullmatch(name) and len(name) <= LONGEST:
        return
    raise ConfigError(
        f"{name!r} is not a valid plugin name: lower-case letters, digits and single underscores, a letter first, "
        f"at most {LONGEST} characters",
        "NAME",
        suggestion(name, "maze_"),
    )


def suggestion(name: str, prefix: str = "") -> str | None:
    """Return a hint with a similar valid name, without a prefix; None if there is none."""
    better = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
    better = better.removeprefix(prefix).lstrip("0123456789_")[:LONGEST].rstrip("_")
    return f"Did you mean {better}?" if better else None


def _check_reserved(names: Names) -> None:
    """Refuse a name with another meaning, or whose classes would hide what the package imports."""
    name = names.name
    if name.startswith("maze_"):
        raise ConfigError(
            f"the package's name begins with maze anyway: {name!r} would become {names.distribution}",
            "NAME",
            f"Did you mean {name.removeprefix('maze_')}?",
        )
    classes = set() if names.kind == "command" else {names.plugin_class, names.config_class}
    hidden = classes & {*maze_core.__all__, *dir(builtins), "Iterator", "Generator", "Sequence"}
    if name in _RESERVED or name in discovery.KINDS or keyword.iskeyword(name) or hidden:
        raise ConfigError(f"the name {name!r} is reserved", "NAME", "Choose another.")


def _check_free(names: Names) -> None:
    """Refuse a name that conflicts with an installed package, or with one from this repository."""
    for found in discovery.declarations():
        if (found.kind, found.name) == (names.kind, names.name):
            raise ConfigError(
                f"{found.origin} already has {names.kind} {names.name!r}, and two would clash",
                "NAME",
                f"Choose another name, or uninstall {found.distribution} first.",
            )
        if found.distribution == names.distribution:
            raise ConfigError(
                f"a package {names.distribution} is installed already, which has {found.kind} {found.name!r}",
                "NAME",
                "Choose another name: the new package would replace it.",
            )
    if brings := publisher(names.kind, names.name):
        raise ConfigError(
            f"{brings}, which is not installed, has {names.kind} {names.name!r}, and two would clash",
            "NAME",
            "Choose another name.",
        )
    if importlib.util.find_spec(names.package):
        raise ConfigError(f"Python finds a package {names.package} already", "NAME", "Choose another name.")
