"""The names of PettingZoo's own environments, and where each of them is; nothing is built."""

from __future__ import annotations

import difflib
import importlib.util
import pkgutil
import re
from collections.abc import Iterator

from maze_core import ConfigError
from maze_core.base.foreign_settings import unchanged_variables
from maze_core.base.terminal_text import shown

_FAMILIES = {
    "mpe": "mpe2",
    "classic": "pettingzoo.classic",
    "butterfly": "pettingzoo.butterfly",
    "sisl": "pettingzoo.sisl",
    "atari": "pettingzoo.atari",
    "magent": "magent2.environments",
}
"""The package of each family; those of mpe and magent have left PettingZoo."""
_MOVED = {"pettingzoo.mpe": "mpe2", "pettingzoo.magent": "magent2.environments", "magent2": "magent2.environments"}
_INSTALL = {
    "mpe2": "mpe2",
    "magent2": "magent2",
    "classic": '"pettingzoo[classic]"',
    "butterfly": '"pettingzoo[butterfly]"',
    "sisl": '"pettingzoo[sisl]"',
    "atari": '"pettingzoo[atari]"',
}
_OF_MPE = frozenset({
    "simple", "simple_adversary", "simple_crypto", "simple_push", "simple_reference", "simple_speaker_listener",
    "simple_spread", "simple_tag", "simple_world_comm",
})  # fmt: skip
"""Known also where mpe2 is not installed."""
_NAME = re.compile(r"(?:(?P<family>[a-z]+)/)?(?P<name>[a-z][a-z0-9_]*?)(?:[-_]v(?P<version>\d+))?")


def is_of_pettingzoo(package: str) -> bool:
    """Return True for a module of PettingZoo, or of a package that has its former environments."""
    return package.partition(".")[0] in ("pettingzoo", "mpe2", "magent2")


def found_by_name(env_id: str) -> list[str]:
    """Return the families that have an environment of this name, in any version."""
    match = _NAME.fullmatch(env_id)
    if match is None or (match["family"] is not None and match["family"] not in _FAMILIES):
        return []
    families = [match["family"]] if match["family"] else list(_FAMILIES)
    found = [family for family in families if versions_of(_FAMILIES[family], match["name"])]
    if not found and "mpe" in families and match["name"] in _OF_MPE and (match["version"] or match["family"]):
        return ["mpe"]
    return found


def place_of(env_id: str) -> tuple[str, str]:
    """Return the package of an environment, and its name there.

    Raises:
        ConfigError: there is no such environment, or its version is missing.
    """
    package, colon, name = env_id.rpartition(":")
    if colon and name.isidentifier():
        return _MOVED.get(package, package), name
    families = found_by_name(env_id)
    if colon or not families:
        near = difflib.get_close_matches(env_id, all_names(), n=2)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Write connect_four_v3, or package:name."
        raise ConfigError(f"{shown(env_id)} is no environment of PettingZoo", "env.id", hint)
    match, package = _NAME.fullmatch(env_id), _FAMILIES[families[0]]
    if match is None:
        raise AssertionError(env_id)
    versions = versions_of(package, match["name"])
    name = f"{match['name']}_v{match['version']}"
    if versions and (match["version"] is None or name not in versions):
        raise without_version(env_id, versions)
    return package, name


def versions_of(package: str, name: str) -> list[str]:
    """Return the names of an environment with each of its versions, newest last; empty where there is none."""
    form = re.compile(rf"{re.escape(re.sub(r'_v[0-9]+$', '', name))}_v(\d+)")
    found = [(int(match[1]), each) for each in _modules(package) if (match := form.fullmatch(each))]
    return [each for _, each in sorted(found)]


def without_version(env_id: str, versions: list[str]) -> ConfigError:
    """Return the error for an environment without a version, or with another one than there is."""
    return ConfigError(
        f"{shown(env_id)} needs a version that is installed", "env.id", f"Next: --env {' or '.join(versions[::-1])}"
    )


def missing_package(env_id: str, error: ImportError) -> ConfigError:
    """Return the error for an environment whose package, or a package of whose family, is missing."""
    package = env_id.rpartition(":")[0] or _FAMILIES[(found_by_name(env_id) or ["classic"])[0]]
    package = _MOVED.get(package, package)
    key = package.partition(".")[0] if not package.startswith("pettingzoo.") else package.split(".")[1]
    missing = error.name or "a package"
    command = _INSTALL.get(key) if key in _INSTALL else missing
    return ConfigError(f"{env_id} needs {missing}, which is missing", "env.id", f"Install it: pip install {command}")


def all_names() -> list[str]:
    """Return the names of all environments that are installed."""
    version = re.compile(r".+_v\d+")
    return sorted(each for package in _FAMILIES.values() for each in _modules(package) if version.fullmatch(each))


def _modules(package: str) -> Iterator[str]:
    """Yield the names of a package's modules, which are not imported."""
    if not is_of_pettingzoo(package):
        return
    with unchanged_variables():
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            return
    for each in pkgutil.iter_modules([] if spec is None else spec.submodule_search_locations):
        yield each.name
