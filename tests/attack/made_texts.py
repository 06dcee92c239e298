"""Hostile addresses, names, CSV files and archives, drawn by chance."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

TEXTS = (
    "<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "</style><style>@import 'http://127.0.0.1:1/x'",
    "]]><svg onload=alert(1)>", "<!--", "&lt;script&gt;", "javascript:alert(1)", "[a](javascript:alert(1))",
    "![](http://127.0.0.1:1/x)", "<http://127.0.0.1:1/x>", "`x` | y", "``` \n# head", "http://127.0.0.1:1/",
    "www.x.org",
    "\\input{/etc/passwd}", "\\write18{touch owned}", "^^5cinput{x}", "$\\catcode`\\@=0$", "%{}\\end{document}",
    "~#&_^",
    "=1+1", "=cmd|' /C touch owned'!A0", "@SUM(1)", "+1", "-1+HYPERLINK(\"http://127.0.0.1:1\")", "\t=1", "'=1", " =1",
    "$(touch owned)", "`touch owned`", "; touch owned;", "| touch owned", "x\ntouch owned", "--out=owned", "-o owned",
    "{{7*7}}", "{0.__class__}", "%(x)s", "${x}", "\x1b[2J\x1b[31m", "\x1b]0;t\x07", "\u202egnol", "a\u2028b", "\x9b31m",
    "a" * 3000, "é" * 150, "../../outside/file", "/etc/passwd", "~/x", "con.txt", "[red]x[/red]", "0", "nan", "ppo",
    "\u00a0",
)  # fmt: skip
_PATHS = (
    "x.zip", "x", "../outside/file", "../../etc/passwd", "/etc/passwd", "/dev/zero", "/dev/stdin", "a b.zip",
    "%2e%2e/x.zip",
    "%00.zip", "x.zip?y=1", "?secret=1", "", "/", "//", "x.zip::zip", "\x1b[31m.zip", "a/" * 300, "é.zip", "x.zip\n",
    "*",
    "runs", "-rf", "--help", "$(touch owned).zip", "x.zip;touch owned", ".", "..", "~", "~root/x.zip",
    "\\\\host\\share",
)  # fmt: skip
_HOSTS = (
    "127.0.0.1:1",
    "[::1]:1",
    "127.0.0.1:0",
    "127.0.0.1:99999",
    "user:secret@127.0.0.1:1",
    "127.1:1",
    "[::",
    "",
    "@",
)
_SUMS = ("", "", "", "#sha256=" + "0" * 64, "#sha256=0", "#md5=0", "#", "#sha256=" + "A" * 64, "#x#y")
_PLACES = ("http://", "https://", "file://", "file:", "zoo:", "memory://", "data:", "javascript:", "zip://",
           "reference://", "local://", "ldap://", "HTTP://", "", "", "x:")  # fmt: skip
"""The beginnings of addresses. Stores of others are not among them: they would be asked."""
_ARCHIVED = (
    "../../outside/file",
    "/tmp/owned",
    "theirs.py",
    "film.mp4/",
    "checkpoints/best/model.pkl",
    "a" * 5000,
    "\x1b[2J",
)
HEAD = "task,algorithm,seed,step,score"


def hostile_address(chance: random.Random) -> str:
    """Return an address that leads nowhere, or where it should not."""
    place, path = chance.choice(_PLACES), chance.choice((*_PATHS, *TEXTS))
    if place.lower() in ("http://", "https://"):
        path = f"{chance.choice(_HOSTS)}/{path}"
    text = f"{place}{path}{chance.choice(_SUMS)}"
    if chance.random() < 0.1:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(("\r\n", "\u202e", "\t", "%0d%0a", "\ud800", "#", "@", "::")) + text[at:]
    # A word that begins with - is an option, and no argument has a zero byte.
    return (text.removeprefix("-").replace("\0", "") or "x:").lstrip("-")


def csv_of(chance: random.Random, harm: float = 0.3) -> bytes:
    """Return a CSV file with the names of a stranger; `harm`: the probability that it is also damaged."""
    tasks, names = chance.sample(TEXTS, chance.randint(1, 3)), chance.sample(TEXTS, chance.randint(1, 4))
    lines = [HEAD]
    for task in tasks:
        for name in names:
            for seed in range(chance.randint(1, 3)):
                for step in range(chance.randint(1, 3)):
                    lines.append(
                        ",".join(map(_quoted, (task, name, str(seed), str(step), f"{chance.gauss(0, 9):.3g}")))
                    )
    text = "\n".join(lines)
    if chance.random() >= harm:
        return text.encode(errors="surrogatepass")
    cells = (
        "nan",
        "inf",
        "1e999",
        "9" * 400,
        "0x10",
        "1_0",
        "\u0661",
        "",
        "=1+1",
        "1;2",
        '"',
        "\x00",
        "\r",
        "True",
        "1,2,3",
    )
    at = chance.randrange(len(text))
    changed = text[:at] + chance.choice(cells) + text[at + chance.randint(0, 5) :]
    data = changed.encode(errors="surrogatepass")
    if chance.random() < 0.2:
        return chance.choice((b"\xff\xfe" + data, data.replace(b"\n", b"\r"), data + b"\xc3", data[: len(data) // 2]))
    return data


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def damaged_archive(chance: random.Random, data: bytes) -> tuple[str, bytes]:
    """Return what happened to an archive, and the archive."""
    changed = bytearray(data)
    form = chance.randrange(5)
    if form == 0:
        for _ in range(chance.choice((1, 2, 8, 64))):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        return "flipped bits of an archive", bytes(changed)
    if form == 1:
        return "half an archive", data[: chance.randrange(len(data))]
    if form == 2:
        at, fmt = chance.choice(((4, "<H"), (8, "<H"), (10, "<H"), (12, "<L"), (16, "<L"), (20, "<H")))
        struct.pack_into(fmt, changed, len(data) - 22 + at, chance.choice((0, 1, 0x7FFF, 0xFFFF)))
        return "another last record of an archive", bytes(changed)
    if form == 3:
        at = data.rfind(b"PK\x01\x02", 0, chance.randrange(len(data) // 2, len(data)))
        field, fmt = chance.choice(((8, "<H"), (10, "<H"), (20, "<L"), (24, "<L"), (28, "<H"), (38, "<L"), (42, "<L")))
        struct.pack_into(fmt, changed, max(at, 0) + field, chance.choice((0, 1, 8, 0xA1FF, 0xFFFF)))
        return "another entry of an archive", bytes(changed)
    return "a further file in an archive", _with_further(chance, data)


def _with_further(chance: random.Random, data: bytes) -> bytes:
    import io
    import zipfile

    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as file:
        entry = zipfile.ZipInfo(chance.choice(_ARCHIVED))
        entry.external_attr = chance.choice((0o100644, 0o120777, 0o10644, 0o104777)) << 16
        file.writestr(entry, b"/etc/passwd")
    return buffer.getvalue()


def _bomb(file: Path, outside: Path) -> None:
    file.write_bytes((HEAD + "\n" + "x,a,0,1,1\n" * 200_000).encode())


RARE: dict[str, Callable[[Path, Path], object]] = {
    "a pipe": lambda file, outside: os.mkfifo(file),
    "a folder": lambda file, outside: file.mkdir(),
    "a link to zeros": lambda file, outside: file.symlink_to("/dev/zero"),
    "a link outside": lambda file, outside: file.symlink_to(outside / "file"),
    "an empty file": lambda file, outside: file.write_bytes(b""),
    "one long line": lambda file, outside: file.write_bytes(b"a" * 5_000_000),
    "many columns": lambda file, outside: file.write_bytes(b"," * 500_000),
    "an open quote": lambda file, outside: file.write_bytes(f'{HEAD}\n"'.encode() + b"x,\n" * 500_000),
    "zeros": lambda file, outside: file.write_bytes(bytes(1_000_000)),
    "the same line again and again": _bomb,
}
"""What stands in place of a CSV file."""
