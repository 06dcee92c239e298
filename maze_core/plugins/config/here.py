"""Which texts stay here: folders within known ones, and addresses of this machine.

What cannot be told for certain counts as elsewhere: then the user is asked, and nothing has happened yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

_NETWORK = frozenset(
    ("amqp", "amqps", "grpc", "grpcs", "http", "https", "mongodb", "mqtt", "mqtts", "mysql", "nats", "postgres",
     "postgresql", "ray", "redis", "rediss", "tcp", "tls", "udp", "ws", "wss", "zmq")
)  # fmt: skip
"""Schemes after which a machine is named, where others name a bucket, an account or nothing. Those of file transfer are
none of them: on this machine, too, they write to any folder."""
_URL = re.compile(r"([a-z][a-z0-9.-]*)(?:\+[a-z0-9_.-]+)?://(.*)", re.IGNORECASE | re.DOTALL)
_UNCERTAIN = re.compile(r"[^\x20-\x7e]|[\\@?#%$]")
"""What programs read in different ways: control characters, other alphabets, users, options, escapes, variables."""
_HOST = re.compile(r"(\[(?P<six>[\da-f:.]+)\]|(?P<four>[\d.]+)|(?P<name>[a-z]+))(:(?P<port>\d{1,5}))?", re.I | re.ASCII)
_MACHINE = re.compile(r"(?!\d{1,5}:)[\w.-]+:\d+|\[[^]]*\](:\d+)?")
"""A text that can hardly be anything but a host with its port."""


def texts(value: Any) -> Iterator[str]:
    """Yield every text in plain data, keys too; a number is the text that it is written as."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from texts(key)
            yield from texts(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from texts(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def is_folder_here(text: str, homes: Sequence[Path]) -> bool:
    """Return True for a path within one of these folders, or the URL of one."""
    if "://" in text:
        return is_address_here(text, homes)
    if text.startswith("~") or "$" in text or "\\" in text or not text.isprintable():
        return False
    try:
        place = Path(text).resolve()
        return any(place.is_relative_to(home.resolve()) for home in homes)
    except (OSError, ValueError, RuntimeError):
        return False


def is_address_here(text: str, homes: Sequence[Path]) -> bool:
    """Return True for `host:port` or a URL of this machine, and for the URL of a file within one of these folders."""
    url = _URL.fullmatch(text)
    if url is None:
        return "/" not in text and _is_this_machine(text)
    scheme, rest = url[1].lower(), url[2]
    if _UNCERTAIN.search(rest):
        return False
    if scheme in ("file", "local"):
        return rest.startswith("/") and is_folder_here(rest, homes)
    if scheme == "sqlite":  # `sqlite:///here.db` is relative, `sqlite:////tmp/there.db` is not
        return rest.startswith("/") and rest != "/" and is_folder_here(rest[1:], homes)
    return scheme in _NETWORK and _is_this_machine(rest.partition("/")[0])


def is_argument_here(text: str, homes: Sequence[Path]) -> bool:
    """Return False for a text of unknown use that looks like an address or a path, and leads elsewhere."""
    if "://" in text:
        return is_address_here(text, homes)
    if text.startswith(("~", "/", "\\")) or ".." in Path(text).parts:
        return is_folder_here(text, homes)
    return _is_this_machine(text) if _MACHINE.fullmatch(text) or _is_ip(text) else True


def _is_ip(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False


def _is_this_machine(address: str) -> bool:
    """Return True for the host of this machine, with a port or without."""
    found = _HOST.fullmatch(address)
    if found is None or not 0 < int(found["port"] or 1) < 2**16:
        return False
    if found["name"] is not None:
        return found["name"].lower() == "localhost"
    try:
        return ip_address(found["six"] or found["four"]).is_loopback
    except ValueError:
        return False
