"""Opens published policies: verified, and copied to the cache or to a folder, where they are run directories.

Nothing of a policy is imported or executed here. What an address holds is written only when all of it is verified.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from maze_core import ConfigError, RunError
from maze_core.base import files
from maze_core.base.bundled import packages
from maze_core.base.file_systems import cache_folder
from maze_core.base.local_modules import named_modules
from maze_core.base.terminal_text import argument, printable
from maze_core.plugins.config.plain_yaml import parse_mapping
from maze_publish import card, manifest
from maze_publish.address import Address, is_of_others, masked, parse
from maze_publish.archive import Archive
from maze_publish.card import Card
from maze_publish.limits import LIMITS, Limits
from maze_publish.manifest import Part
from maze_publish.policies_at_hand import policy_named
from maze_publish.sources import Source, source_of

_WHERE = "ADDRESS"
_OLD = 3600.0
"""Seconds after which a folder that another process was writing is left over."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A published policy whose manifest is verified, and whose files are not read yet."""

    address: Address
    sum: str
    parts: dict[str, Part]
    manifest: bytes
    source: Source

    def contents(self) -> dict[str, bytes]:
        """Return all files, verified. Errors as for a source."""
        found = {manifest.NAME: self.manifest}
        for name, part in self.parts.items():
            try:
                data = self.source.read(name, part.size)
            except FileNotFoundError:
                raise ValueError(f"it has no {name}") from None
            part.check(name, data)
            found[name] = data
        return found


def find(address: Address, limits: Limits = LIMITS) -> Policy | None:
    """Return the policy at an address; None where there is none.

    Raises:
        ConfigError: its sum is another one, or it is damaged.
        RunError: it cannot be read.
    """
    place = address
    if address.kind == "zoo":
        place = replace(address, kind="path", place=str(policy_named(address.place)))
    try:
        source = source_of(place, limits)
        data = source.read(manifest.NAME, manifest.MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _damaged(address, error) from None
    found = manifest.sum_of(data)
    if address.sum not in (None, found):
        raise ConfigError(
            f"{masked(address.place)} is not the policy that the address names: its sum is {found}",
            _WHERE,
            "Someone has replaced it, or the address is that of another one. Next: ask who gave you the address.",
        )
    try:
        parts = manifest.decode(data, limits.bytes)
        _check_names(source, parts)
    except ValueError as error:
        raise _damaged(address, error) from None
    return Policy(address, found, parts, data, source)


def _check_names(source: Source, parts: dict[str, Part]) -> None:
    if isinstance(source, Archive) and (extra := set(source.names) - {manifest.NAME, *parts}):
        raise ValueError(f"it holds {printable(min(extra), 100)}, which its manifest does not list")


def open_policy_at(text: str) -> Path:
    """Return the run directory of the policy at an address, in the cache.

    Raises:
        ConfigError: there is none, it is damaged, or evaluating it would import what nobody has agreed to.
        RunError: it cannot be read.
    """
    address = parse(text)
    folder = None if address.sum is None else _cached(address.sum)
    if folder is None:
        policy = _needed(address)
        folder = _cached(policy.sum) or _cache(policy)
    _check_imports(folder, address)
    return folder


def fetch_policy(text: str, folder: Path | None) -> bool:
    """Copy the policy at an address to a new folder, and tell of it: the command `maze fetch`.

    Returns:
        False where there is no policy, but maybe a copied run. Errors as for `fetched`.
    """
    from maze_core.cli import output
    from maze_publish.telling import tell

    found = None if is_of_others(text) else fetched(text, folder)
    if found is None:
        return False
    output.say(f"fetched {found.folder} from {found.address}")
    tell(found.card)
    output.say(f"Next: maze eval {argument(found.folder)}")
    return True


@dataclass(frozen=True, slots=True)
class Fetched:
    """A policy that was copied to a folder."""

    folder: Path
    address: str
    """Pinned by its sum."""
    card: Card


def fetched(text: str, folder: Path | None, limits: Limits = LIMITS) -> Fetched | None:
    """Copy the policy at an address to a new folder; None: one of its name below `runs/`.

    Returns:
        None where there is no policy, but maybe a copied run.

    Raises:
        ConfigError: it is damaged, or the folder exists or cannot be written.
        RunError: it cannot be read.
    """
    address = parse(text)
    policy = find(address, limits)
    if policy is None:
        if address.kind == "http" or address.is_archive or address.sum:
            raise _missing(address)
        return None
    folder = Path("runs") / address.name if folder is None else folder
    if os.path.lexists(folder):
        raise ConfigError(f"{printable(folder)} exists already", "--dir", "Next: name a new folder.")
    contents = _contents(policy)
    try:
        place(contents, folder)
    except OSError as error:
        raise ConfigError(f"{printable(folder)} cannot be written: {error.strerror or error}", "--dir") from None
    return Fetched(folder, address.pinned(policy.sum), card.decode(contents[manifest.CARD]))


def card_of(file: Path) -> Card:
    """Return the card of an archive of this machine. Raises ConfigError if it is damaged."""
    address = Address("path", str(file))
    policy = _needed(address)
    try:
        data = policy.source.read(manifest.CARD, card.MOST_BYTES)
        policy.parts[manifest.CARD].check(manifest.CARD, data)
        return card.decode(data)
    except (OSError, ValueError) as error:
        raise _damaged(address, error) from None


def imports_of(config: bytes | str) -> list[str]:
    """Return the packages that a configuration names by `package:Name`, besides those of Maze.

    Raises:
        ConfigError: it is no configuration.
    """
    text = config if isinstance(config, str) else config.decode(errors="replace")
    return sorted(set(named_modules(parse_mapping(text, manifest.CONFIG))) - packages())


def _check_imports(folder: Path, address: Address) -> None:
    """Refuse a policy of a stranger whose environment is the code of a package that nobody here has named."""
    if address.kind == "zoo":
        return
    named = imports_of(files.read_bytes(folder / manifest.CONFIG, manifest.MOST_BYTES, folder))
    if named:
        raise ConfigError(
            f"the policy at {masked(address.place)} names code of {', '.join(map(printable, named))}, which would be "
            "imported",
            _WHERE,
            f"If you agree, fetch it and name the folder in its place: maze fetch {argument(address.place)} "
            f"--dir {argument(address.name)}",
        )


def _needed(address: Address, limits: Limits = LIMITS) -> Policy:
    policy = find(address, limits)
    if policy is None:
        raise _missing(address)
    return policy


def _missing(address: Address) -> ConfigError:
    what = "file" if address.is_archive else manifest.NAME
    return ConfigError(f"there is no policy at {masked(address.place)}: no such {what}", _WHERE)


def _contents(policy: Policy) -> dict[str, bytes]:
    try:
        found = policy.contents()
        card.decode(found[manifest.CARD][: card.MOST_BYTES + 1])
        imports_of(found[manifest.CONFIG])
    except (OSError, ValueError) as error:
        raise _damaged(policy.address, error) from None
    return found


def _damaged(address: Address, error: Exception) -> ConfigError:
    reason = printable(getattr(error, "strerror", None) or error, 300)
    return ConfigError(f"the policy at {masked(address.place)} is damaged: {reason}", _WHERE)


def policies_folder() -> Path | None:
    """Return the folder of opened policies; None for a user without a home folder."""
    folder = cache_folder()
    return folder and folder / "policies"


def _cached(digest: str) -> Path | None:
    """Return the cached policy of a sum, verified; None if there is none, or a damaged one, which is removed."""
    policies = policies_folder()
    folder = policies and policies / digest
    if folder is None or not folder.is_dir():
        return None
    try:
        policy = find(Address("path", str(folder), digest))
        if policy is not None:
            policy.contents()
            return folder
    except (ConfigError, RunError, OSError, ValueError):
        pass
    with suppress(OSError):
        files.remove(folder, folder.parent)
    return None


def _cache(policy: Policy) -> Path:
    contents, policies = _contents(policy), policies_folder()
    problem = "there is no home folder for a cache"
    if policies is not None:
        try:
            place(contents, policies / policy.sum)
            return policies / policy.sum
        except OSError as error:
            found = _cached(policy.sum)  # another process was first
            if found is not None:
                return found
            problem = f"the cache {printable(policies)} cannot be written: {error.strerror or error}"
    fetch = f"maze fetch {argument(policy.address.pinned(policy.sum))} --dir FOLDER"
    raise ConfigError(problem, _WHERE, f"Next: {fetch}, and name that folder.")


def place(contents: dict[str, bytes], folder: Path) -> None:
    """Write files into a hidden folder, which gets its name at the end; nothing is left behind by an error."""
    parent = folder.parent
    parent.mkdir(parents=True, exist_ok=True)
    _remove_old(parent)
    fresh = folder.with_name(files.leftover(folder.name))
    try:
        fresh.mkdir()
        for name, data in contents.items():
            target = fresh.joinpath(*name.split("/"))
            files.make_folder(target.parent, fresh)
            files.write_bytes(target, data, fresh)
        if os.path.lexists(folder):
            raise FileExistsError(17, "it exists already", str(folder))
        fresh.rename(folder)
    except BaseException:
        with suppress(OSError):
            files.remove(fresh, parent)
        raise
    files.sync(parent, parent)


def _remove_old(parent: Path) -> None:
    """Remove what killed processes left over in the cache."""
    if parent != policies_folder():
        return
    for path in parent.glob(".*.new"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _OLD:
                files.remove(path, parent)
