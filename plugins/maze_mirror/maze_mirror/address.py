"""Addresses of copies, such as `s3://bucket/runs/first`: which are accepted, and how messages show them.

An address becomes part of `config.yaml` and of messages, so it must hold no secrets. Whatever else a file system needs
is in environment variables.
"""

from __future__ import annotations

import os
import re

from maze_core.base.terminal_text import printable

_EXAMPLE = "such as s3://bucket/runs/first or file:///mnt/runs/first"
_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]*")
_PASSWORD = re.compile(r":[^@]*@")
_SECRET = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIAL|_KEY|KEY_|CONNECTION_STRING", re.IGNORECASE)
_SHORTEST_SECRET = 6


def checked(address: str) -> str:
    """Return an address without a slash at its end.

    Raises:
        ValueError: it is no address of a folder, or holds a password or options.
    """
    protocol, mark, rest = address.partition("://")
    if not mark or not _PROTOCOL.fullmatch(protocol) or not address.isprintable():
        raise ValueError(f"{masked(address)} is no address {_EXAMPLE}")
    if _PASSWORD.search(rest):
        raise ValueError(
            f"{masked(address)} holds a password, which would be written to config.yaml. Next: leave it out, and set "
            f"it as an environment variable, such as FSSPEC_{protocol.upper()}_PASSWORD"
        )
    if "?" in rest or "#" in rest or "::" in address:
        raise ValueError(
            f"{masked(address)} holds options or names several file systems. Next: name the folder alone, and set "
            f"options as environment variables, such as FSSPEC_{protocol.upper()}_OPTION"
        )
    if ".." in rest.split("/") or not rest.strip("/"):
        raise ValueError(f"{masked(address)} names no folder. Next: an address {_EXAMPLE}")
    if protocol in ("file", "local") and not rest.startswith("/"):
        raise ValueError(f"{masked(address)} depends on the current folder. Next: {protocol}:///{masked(rest)}")
    return address.rstrip("/")


def protocol_of(address: str) -> str:
    """Return the part of a checked address before `://`."""
    return address.partition("://")[0]


def masked(address: str) -> str:
    """Return an address for messages: without passwords, options and control characters."""
    protocol, mark, rest = address.partition("://")
    if not mark:
        protocol, rest = "", address
    shown = _PASSWORD.sub(":***@", rest)
    shown = re.sub(r"[?#].*", "?***", shown, flags=re.DOTALL)
    return printable(f"{protocol}{mark}{shown}", 100)


def reason(error: BaseException) -> str:
    """Return what an error of a file system says, in one line, without the secrets in this process's environment."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = str(error.strerror)
    for value in sorted(_secrets(), key=len, reverse=True):
        text = text.replace(value, "***")
    return printable(_without_passwords(text), 300)


def _without_passwords(text: str) -> str:
    """Mask the user information of every address in a text."""
    return re.sub(r"://[^/@\s]*@", "://***@", text)


def _secrets() -> set[str]:
    named = {value for name, value in os.environ.items() if _SECRET.search(name) or name.startswith("FSSPEC_")}
    return {value for value in named if len(value) >= _SHORTEST_SECRET}
