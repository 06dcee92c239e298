"""Addresses of published policies: `zoo:NAME`, `https://…`, `s3://…`, `file:///…`, or a path; each may end in its sum.

An address is shown in messages and stands in commands, so it holds no secrets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from maze_core import ConfigError
from maze_core.base.terminal_text import printable

Kind = Literal["zoo", "http", "path", "store"]

_WHERE = "ADDRESS"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
_SUM = re.compile(r"sha256=([0-9a-f]{64})")
_EXAMPLES = "Next: zoo:NAME, https://HOST/PATH, s3://BUCKET/PATH, file:///PATH or a path, each with #sha256=SUM or not."
_LONGEST = 2000
STORES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci", "hf", "sftp", "memory")
"""The file systems of fsspec that an address may name: others read archives in archives, or what any server says."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a published policy is."""

    kind: Kind
    place: str
    """The name in the zoo, the URL, or the path, without the sum."""
    sum: str | None = None
    """The SHA-256 that its manifest must have; None: any."""

    @property
    def is_archive(self) -> bool:
        """True for an archive, False for a folder."""
        path = urlsplit(self.place).path if self.kind in ("http", "store") else self.place
        return path.endswith(".zip")

    @property
    def name(self) -> str:
        """The last part of the place, without `.zip`: a name for a folder."""
        if self.kind == "zoo":
            return self.place
        last = unquote(urlsplit(self.place).path) if self.kind == "http" else self.place
        found = re.sub(r"[^\w.+-]+", "-", last.rstrip("/").rpartition("/")[2].removesuffix(".zip")).strip(".-")
        return found[:100] or "policy"

    def pinned(self, digest: str) -> str:
        """Return the address with a sum, as it is typed."""
        return f"{'zoo:' if self.kind == 'zoo' else ''}{self.place}#sha256={digest}"


def parse(text: str) -> Address:
    """Return what an address says. Slashes after the scheme may be missing: paths lose them.

    Raises:
        ConfigError: it is none, or holds a password.
    """
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise _refused(text, "is no address")
    place, mark, fragment = text.partition("#")
    found = _SUM.fullmatch(fragment)
    if mark and not found:
        raise _refused(text, "should end in #sha256= and 64 hexadecimal digits, or have no #")
    digest = found[1] if found else None
    scheme = _SCHEME.fullmatch(place)
    if scheme is None or (place.endswith(".zip") and Path(place).is_file()):
        return Address("path", str(Path(place).absolute()), digest)
    return _with_scheme(text, scheme[1], scheme[2], digest)


def _with_scheme(text: str, scheme: str, rest: str, digest: str | None) -> Address:
    if scheme == "zoo":
        if not _NAME.fullmatch(rest):
            raise ConfigError(f"{printable(text, 100)} is no name in the zoo", _WHERE, "Next: maze zoo list")
        return Address("zoo", rest, digest)
    if scheme == "file":
        path = "/" + rest.lstrip("/")
        if not rest.startswith("/") or ".." in path.split("/") or (rest.startswith("//") and rest[2:3] != "/"):
            raise _refused(text, "should be file:///, and a path from the root")
        return Address("path", path, digest)
    rest = rest.lstrip("/")
    place = f"{scheme}://{rest}"
    if scheme in ("http", "https"):
        _check_url(text, place)
        return Address("http", place, digest)
    if scheme not in STORES:
        raise _refused(text, f"names no store that policies are fetched from; those are {', '.join(STORES[:-1])}")
    if not rest or ":" in rest.partition("@")[0] * ("@" in rest) or "?" in rest or "::" in text:
        raise _refused(text, "holds a password or options, or names no folder")
    if ".." in rest.split("/"):
        raise _refused(text, "should not contain ..")
    return Address("store", place.rstrip("/"), digest)


def is_of_others(text: str) -> bool:
    """Return True for an address whose scheme is none of those here; something else may know it."""
    scheme = _SCHEME.fullmatch(text)
    return scheme is not None and scheme[1] not in ("zoo", "file", "http", "https", *STORES)


def _check_url(text: str, place: str) -> None:
    try:
        parts = urlsplit(place)
        usable = bool(parts.hostname) and parts.port != 0 and place.isascii() and " " not in place
    except ValueError:
        usable = False
    if not usable:
        raise _refused(text, "is no URL that can be fetched")
    if "@" in parts.netloc:
        raise ConfigError("an address should hold no user and no password", _WHERE, "Next: the address without them.")
    if parts.query and not parts.path.endswith(".zip"):
        raise _refused(text, "is that of a folder, and has options (?)")


def _refused(text: str, problem: str) -> ConfigError:
    return ConfigError(f"{masked(text)} {problem}", _WHERE, _EXAMPLES)


def masked(text: str) -> str:
    """Return an address for messages: without user, options and control characters."""
    shown = re.sub(r"/[^/@]*@", "/***@", text[: _LONGEST * 2])
    return printable(re.sub(r"\?[^#]*", "?***", shown), 200)
