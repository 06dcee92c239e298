"""YAML as plain data: the only module that reads and writes YAML.

Configurations may come from strangers. So a text cannot build objects, use aliases (ten nested aliases are a billion
values) or nest without limit, and its length is limited.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from maze_core.base.errors import ConfigError
from maze_core.base.files import read_bytes

MAX_BYTES = 100_000
"""Most bytes of a YAML text, which take seconds to parse; a run's configuration has a few thousand."""
MAX_DEPTH = 40
"""Most levels of nested mappings and lists."""

# Scalars of YAML 1.2. PyYAML uses those of 1.1, which read 3e-4 as a string, no as False and 1:30 as 90.
_SCALARS = (
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:int", r"^[-+]?(?:0|[1-9][0-9_]*)$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|nan))$",
        "-+0123456789.",
    ),
)


def _plain(loader: Any) -> Any:
    """Return a loader of PyYAML that builds plain data only."""

    class PlainLoader(loader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 — PyYAML's class attribute, emptied
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> Any:
            event: Any = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
                kind = "alias" if isinstance(event, yaml.AliasEvent) else "anchor"
                raise _problem(event, f"no {kind} is allowed here")
            if event.tag is not None:
                raise _problem(event, "no tag is allowed here; put text in quotes instead")
            if self.depth > MAX_DEPTH:
                raise _problem(event, f"nested deeper than {MAX_DEPTH} levels")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                    raise _problem(key, f"keys must be strings; quote {getattr(key, 'value', '')!r:.80}")
                if key.value in seen:
                    raise _problem(key, f"key {key.value!r:.80} appears twice")
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return _with_scalars(PlainLoader)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # libyaml's, where PyYAML has it
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _with_scalars(kind: Any) -> Any:
    for tag, pattern, first in _SCALARS:
        kind.add_implicit_resolver(tag, re.compile(pattern), ["" if c == "\0" else c for c in first])
    return kind


def _fast_loader() -> Any:
    """Return a loader with the parser of libyaml, which takes a fifth of the time; None where PyYAML lacks it."""
    try:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]
    except ImportError:
        return None

    class Fast(Composer, CParser, SafeConstructor, Resolver):  # its own composer would not call `compose_node`
        def __init__(self, stream: str) -> None:
            CParser.__init__(self, stream)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)

    return _plain(Fast)


_with_scalars(_Dumper)
_Loader, _FastLoader = _plain(yaml.SafeLoader), _fast_loader()


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file that the user named; the path may be a link.

    Raises:
        ConfigError: the text is not valid; the message names the file, and the line if known.
    """
    if path.exists() and not path.is_file():
        raise ConfigError("cannot be read: it is not a regular file", str(path))
    return parse_mapping(read_text(Path(os.path.realpath(path))), str(path))


def read_text(path: Path) -> str:
    """Return the text of a YAML file, which must be a regular one. Raises ConfigError."""
    try:
        return read_bytes(path, MAX_BYTES).decode()
    except FileNotFoundError:
        raise ConfigError("there is no such file", str(path)) from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot be read: {reason}", str(path)) from error


def parse_mapping(text: str, source: str) -> dict[str, Any]:
    """Return the mapping in a YAML text from `source`. Raises ConfigError."""
    data = parse_value(text, source)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"must contain a mapping of configuration keys, not {kind_of(data)}", source)
    return data


def parse_value(text: str, source: str) -> Any:
    """Return the value of a YAML text from `source`: dicts with text keys, lists and plain values.

    Raises:
        ConfigError: it is not YAML, too long, nested too deeply, or has aliases, anchors or tags.
    """
    _check_length(len(text), source)
    try:
        return _load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"not valid YAML{line}: {error.problem}", source) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"not valid YAML: {' '.join(str(error).split())}", source) from error


def given_value(text: str, option: str) -> Any:
    """Return the value that an option was given. Errors as for `parse_value`; an empty text is one, too.

    It is what is left of a variable of the shell that is not set; YAML would take it for null.
    """
    if not text.strip():
        raise ConfigError("was given nothing", option, "Next: leave it out, or give it a value.")
    return parse_value(text, option)


_UNEQUAL = re.compile(r"[^\n\x20-\x7e]|^%", re.MULTILINE)
# The two parsers differ about tabs, unusual ends of lines, byte order marks and directives. What Maze writes has none.


def _load(text: str) -> Any:
    if _FastLoader is not None and not _UNEQUAL.search(text):
        # What it cannot read is left to the other one, whose messages say more.
        with suppress(yaml.YAMLError):
            return yaml.load(text, _FastLoader)  # noqa: S506 — derived from SafeConstructor
    return yaml.load(text, _Loader)  # noqa: S506 — likewise


def to_yaml(data: dict[str, Any]) -> str:
    """Return plain data as YAML, keys in the given order. Raises ConfigError if it is too long to be read again."""
    text = str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100))
    _check_length(len(text.encode()), "the configuration as YAML")
    return text


def kind_of(data: object) -> str:
    """Return the kind of plain data in words, for messages."""
    known = {dict: "a mapping", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return known.get(type(data), type(data).__name__)


def _check_length(length: int, source: str) -> None:
    if length > MAX_BYTES:
        raise ConfigError(f"longer than {MAX_BYTES:,} bytes, the limit", source)


def _problem(at: Any, text: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=at.start_mark)
