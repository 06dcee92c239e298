"""Checks what an algorithm declares as defaults for the other parts of a run."""

from __future__ import annotations

from contextlib import suppress

from maze_core import MazeError, PluginError
from maze_core.plugins import discovery
from maze_core.plugins.config.preferences import check_defaults
from maze_devkit.findings import Check, Failed
from maze_devkit.subject import Subject


def _defaults(subject: Subject) -> None:
    declared = subject.plugin.defaults
    try:
        check_defaults(subject.plugin.__name__, declared)
    except PluginError as error:
        raise Failed(str(error)) from error
    for part, values in declared.items():
        callbacks = values.values() if part == "callbacks" else ()
        wanted = {key for each in callbacks for key in each} if part == "callbacks" else set(values)
        kind = part.removesuffix("s")
        if unknown := sorted(wanted - _parameters(kind)):
            raise Failed(f"no {kind} that is installed has the parameter {', '.join(unknown)}")


def _parameters(kind: str) -> set[str]:
    """Return the parameters of all installed plugins of a kind; those that cannot be imported have none."""
    found: set[str] = set()
    for name in discovery.names(kind):
        with suppress(MazeError):
            found |= set(discovery.load(kind, name).Config.model_fields)
    return found


CHECK = Check(
    "defaults",
    "Each of its `defaults` is for a parameter that a plugin of that part has.",
    "A default for a parameter that nothing has changes nothing, and nobody is told.",
    "Correct the name. `maze plugins info NAME` lists the parameters of a plugin.",
    _defaults,
)
