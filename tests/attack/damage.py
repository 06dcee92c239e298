"""What happens to files: seeded mutations of their bytes, and of the values in JSON, JSON lines and YAML."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from maze_core.base.plain_json import CHECKSUM, checksummed

Mutation = Callable[[random.Random, bytes], bytes]
DEEP = 100_000
WRONG: tuple[object, ...] = (
    None, True, 3, -1, 0, 2**80, -(2**63), 0.5, float("nan"), float("inf"), -1e308, "", "x", "a" * 50_000,
    "\x1b[31mred\x1b[0m", "line\nerror: another", "\x00", "\u202eodd", "../../../x", "/dev/zero", "~", [], {}, [[]],
    [3], {"a": 1}, [None] * 1000, {"": {}}, {"name": "x"}, "nan", "1e999", 10**9,
)  # fmt: skip
"""What stands where something else belongs."""


def truncated(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))] if data else data


def flipped(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 3, 20))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def emptied(chance: random.Random, data: bytes) -> bytes:
    return b""


def blanked(chance: random.Random, data: bytes) -> bytes:
    """A block of zeros, as file systems leave behind after a power cut."""
    start = chance.randrange(len(data) or 1)
    stop = min(len(data), start + chance.choice((16, 512, 4096)))
    return data[:start] + bytes(stop - start) + data[stop:]


def not_unicode(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice((b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xfe\xff\x00\x61")) + data[place:]


def line_repeated(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    number = chance.randrange(len(lines))
    return b"".join([*lines[: number + 1], *lines[number:]])


def line_lost(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def lines_swapped(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        first, second = chance.sample(range(len(lines)), 2)
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines)


def longer(chance: random.Random, data: bytes) -> bytes:
    return data + chance.choice((b"\n", b"\0" * 100, b"}", b"x" * 1000, data, chance.randbytes(50)))


def deep_json(chance: random.Random, data: bytes) -> bytes:
    return chance.choice((b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP, b"[" * DEEP, b"9" * 100_000))


def deep_yaml(chance: random.Random, data: bytes) -> bytes:
    deep = (b"[" * 3000, b"- " * 3000 + b"x", b"{a: " * 3000, b"a: " + b"9" * 100_000 + b"\n", b"? " * 3000)
    return chance.choice((data, b"")) + b"extra: " + chance.choice(deep) + b"\n"


def bomb(chance: random.Random, data: bytes) -> bytes:
    """A few hundred bytes of aliases that stand for a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    text = "\n".join([*lines, ""]).encode()
    return chance.choice((data + text, text, data + b"e: &e [*e]\n", data + b"<<: &m {<<: *m}\n"))


def odd_yaml(chance: random.Random, data: bytes) -> bytes:
    texts = (
        b"!!python/object/apply:os.system [x]\n", b"--- x\n--- y\n", b"%YAML 9.9\n---\na: 1\n", b"\xef\xbb\xbf",
        b"\ta: 1\n", b"? [1, 2]\n: 3\n", b"null: 1\n", b"1: 2\n", b"seed: 1\nseed: 2\n", b"- a\n", b"3\n", b"null\n",
        b"'\n", b"&a\n", b"seed: 0x7f\n", b"seed: 1e400\n", b"? |\n  x\n", b"env: [" + b"{}," * 10_000 + b"]\n",
    )  # fmt: skip
    text = chance.choice(texts)
    return chance.choice((data + text, text + data, text))


def value_changed(chance: random.Random, data: bytes) -> bytes:
    """Another value in place of one in the document; the whole document, now and then."""
    for read, write in ((json.loads, _json_text), (_yaml_value, _yaml_text)):
        try:
            document = read(data)
        except ValueError:
            continue
        return _comments(data) + write(_changed(chance, document)).encode(errors="surrogatepass")
    lines = data.splitlines(keepends=True)
    number = chance.randrange(len(lines) or 1)
    try:
        changed = _json_text(_changed(chance, json.loads(lines[number]))).encode() + b"\n"
    except (ValueError, IndexError):
        return flipped(chance, data)
    return b"".join([*lines[:number], changed, *lines[number + 1 :]])


BINARY: tuple[Mutation, ...] = (truncated, flipped, emptied, blanked, longer)
TEXT: tuple[Mutation, ...] = (*BINARY, not_unicode, line_repeated, line_lost, lines_swapped, value_changed)
JSON: tuple[Mutation, ...] = (*TEXT, deep_json, value_changed, value_changed)
YAML: tuple[Mutation, ...] = (*TEXT, deep_yaml, bomb, odd_yaml, value_changed)
_BY_SUFFIX = {".json": JSON, ".jsonl": JSON, ".yaml": YAML, ".svg": TEXT}


def mutations(name: str) -> tuple[Mutation, ...]:
    """What can happen to a file of that name."""
    return _BY_SUFFIX.get(Path(name).suffix, BINARY)


def forge(folder: Path) -> None:
    """Let the manifest of a checkpoint agree with its files, as a stranger's would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    for name in manifest["files"]:
        manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    path.write_text(json.dumps(resealed(manifest)))


def resealed(document: Any) -> Any:
    """A document whose own checksum, if it has one, agrees with it."""
    if not isinstance(document, dict) or not isinstance(document.pop(CHECKSUM, None), str):
        return document
    return checksummed(document)


def _changed(chance: random.Random, document: Any) -> Any:
    """The document with one value replaced, one removed, or a foreign key added."""
    places = list(_places(document))
    if not places:
        return chance.choice(WRONG)
    holder, key = chance.choice(places)
    action = chance.random()
    if action < 0.04:
        return chance.choice(WRONG)
    if action < 0.14:
        del holder[key]
    elif action < 0.2 and isinstance(holder, dict):
        holder[chance.choice(("odd", "", "\x1b[2J", "a" * 3000, "__class__"))] = chance.choice(WRONG)
    elif action < 0.5 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = chance.choice((holder[key] + 1, -holder[key] - 1, holder[key] * 2**40, holder[key] / 3, 0))
    else:
        holder[key] = chance.choice(WRONG)
    return document


def _places(document: Any) -> Any:
    """Each holder and key of a value within."""
    items = list(document.items()) if isinstance(document, dict) else []
    items = list(enumerate(document)) if isinstance(document, list) else items
    for key, value in items:
        yield document, key
        yield from _places(value)


def _json_text(document: Any) -> str:
    return json.dumps(document)


def _yaml_value(data: bytes) -> Any:
    try:
        document = yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise ValueError from error
    if not isinstance(document, dict | list):
        raise ValueError
    return document


def _comments(data: bytes) -> bytes:
    """The comments that a document begins with: deleting a checksum says that the rest is to be taken as it is."""
    return b"".join(itertools.takewhile(lambda line: line.startswith(b"#"), data.splitlines(keepends=True)))


def _yaml_text(document: Any) -> str:
    return yaml.safe_dump(document, allow_unicode=True)
