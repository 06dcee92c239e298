"""Names of files in place of environments or modules: what to type instead."""

from __future__ import annotations

from pathlib import Path

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import argument, printable, shown


def check_no_file(env_id: str) -> None:
    """Raise ConfigError for an id that names a file, or a member of one as an attribute; it says what is meant."""
    place, _, name = env_id.rpartition(":") if ".py:" in env_id else (env_id, "", "")
    path = Path(place)
    if path.suffix == ".py":
        away = "" if path.parent == Path() else f", with PYTHONPATH={argument(path.parent)}"
        hint = f"Next: --env {argument(':'.join([path.stem, name or 'NAME']))}{away}"
        raise ConfigError(f"{shown(env_id)} names a file, and a module is needed", "env.id", hint)
    module, _, member = env_id.partition(".")
    if member and ":" not in env_id and is_module_here(module):
        hint = f"Next: --env {printable(module)}:{printable(member)}"
        raise ConfigError(f"{shown(env_id)} is a member of a module", "env.id", hint)


def is_module_here(name: str) -> bool:
    """Return True for the name of a module of the current folder, which is not imported."""
    return name.isidentifier() and any(each.name == f"{name}.py" for each in Path().iterdir())
