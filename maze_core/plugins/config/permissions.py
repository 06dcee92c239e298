"""What a configuration may reach outside of its run, and who allowed it.

The `config.yaml` of a saved run may come from someone else, and so may a preset of the current folder. So a marked
value in it is used only if it stays within the current folder, the file's own and this machine, or if the command line
repeats it. `external_fields` has the marks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.terminal_text import argument, shown
from maze_core.plugins import discovery
from maze_core.plugins.config.external_fields import Mark, Outside, marked_fields
from maze_core.plugins.config.raw import NAMED, PARTS, Raw, assign
from maze_core.plugins.config.run import EvaluationConfig

Place = tuple[str, ...]
Assignments = Sequence[tuple[Place, Any]]
"""Paths and values that the command line sets."""


@dataclass(frozen=True)
class Reach:
    """A marked value in a configuration."""

    place: Place
    part: Place
    """The place of the plugin's part."""
    plugin: str
    kind: Outside
    value: Any

    @property
    def where(self) -> str:
        """The path of the value."""
        return ".".join(self.place)

    @property
    def text(self) -> str:
        """The value as the command line takes it."""
        if isinstance(self.value, list) and all(isinstance(each, str) for each in self.value):
            return f"[{','.join(self.value)}]"
        return self.value if isinstance(self.value, str) else json.dumps(self.value)

    def problem(self, source: Path) -> str:
        """Return what a file would do with the value."""
        return f"{argument(source)} would {self.kind.value} {shown(self.text)}, which needs your permission"


@dataclass(frozen=True)
class _Part:
    """A part with marked fields."""

    place: Place
    name: str
    values: dict[str, Any]
    marks: dict[str, Mark]

    def reaches(self) -> Iterator[Reach]:
        """Yield the marked values that may reach outside."""
        for field, mark in self.marks.items():
            keys = tuple(field.split("."))
            for place, value in _values(_at(self.values, keys), mark.kind is Outside.ARGUMENTS):
                if mark.kind not in (Outside.NOTHING, Outside.PLUGIN) and mark.reaches(value):
                    yield Reach((*self.place, *keys, *place), self.place, self.name, mark.kind, value)


def _values(value: Any, singly: bool) -> Iterator[tuple[Place, Any]]:
    """Yield a value, or `singly` those of its keys, each with its place in it; keys may be addresses, too."""
    if singly and isinstance(value, dict) and all(re.fullmatch(r"[\w-]+", str(key)) for key in value):
        for key, each in value.items():
            yield from (((str(key), *place), inner) for place, inner in _values(each, True))
    else:
        yield (), value


class Permissions:
    """What configurations reach outside of a run, by the marks of the plugins that `load` finds, and who allowed it."""

    def __init__(self, load: discovery.Loader = discovery.load) -> None:
        self._load = load

    def reaches(self, raw: Raw) -> list[Reach]:
        """Return the marked values that a configuration sets."""
        return [each for part in self._marked_parts(raw) for each in part.reaches()]

    def elsewhere(self, raw: Raw, source: Path, agreed: Raw | None = None) -> list[Reach]:
        """Return marked values that refer to another machine, or leave the current folder and that of `source`, a file.

        Values that `agreed`, the caller's own configuration, contains too are left out.
        """
        homes = (Path.cwd(), source.parent)
        away = [each for each in self.reaches(raw) if each.kind.is_elsewhere(each.value, homes)]
        return [each for each in away if agreed is None or _at(agreed, each.place) != each.value]

    def assigned(self, raw: Raw, assignments: Assignments, source: Path, agreed: Raw | None = None) -> Raw:
        """Return the configuration in the file `source` with assignments applied.

        Raises:
            ConfigError: a value leads elsewhere, and neither an assignment nor `agreed` sets it.
        """
        result = assign(raw, assignments)
        self.check_said(result, [(raw, source)], assignments, agreed)
        return result

    def check_said(
        self,
        result: Raw,
        untrusted: Sequence[tuple[Raw, Path]],
        assignments: Assignments,
        agreed: Raw | None = None,
    ) -> None:
        """Raise ConfigError if a value of an untrusted file in `result` leads elsewhere, and nobody else sets it.

        `untrusted` are the contents of files with their paths; `agreed` is what the caller's own files set. Which
        plugin a value is for may be said elsewhere than in its file, so the whole configuration is looked at.
        The error names all values, and the options that repeat them.
        """
        unsaid = [
            (each, source)
            for content, source in untrusted
            for each in self.elsewhere(result, source, agreed)
            if _at(content, each.place) is not None and not _is_set(each.place, assignments)
        ]
        if unsaid:
            first, *rest = [each.problem(source) for each, source in unsaid]
            further = [f"\n{each.where}: {problem}" for (each, _), problem in zip(unsaid[1:], rest, strict=True)]
            repeated = [f"--set {argument(f'{each.where}={each.text}')}" for each, _ in unsaid]
            hint = f"To allow it, repeat the value{'s' if rest else ''}: {' '.join(repeated)}"
            raise ConfigError(first + "".join(further), unsaid[0][0].where, hint)

    def for_evaluation(
        self, raw: Raw, assignments: Assignments, source: Path, agreed: Raw | None = None
    ) -> tuple[Raw, list[str]]:
        """Return a saved configuration, to evaluate or to act, with assignments applied, and the parts left out of it.

        Left out are wrappers and callbacks that would write or connect, unless an assignment sets the field; a runner
        that would is replaced by `dev`.

        Raises:
            ConfigError: another part refers elsewhere, and neither an assignment nor `agreed` sets the value again.
        """
        result = assign(raw, assignments)
        skipped = [each for each in self.reaches(result) if _is_skipped(each.part, each.kind)]
        doubtful = [each for each in skipped if not _is_set(each.place, assignments)]
        result = without(result, doubtful)
        self.check_said(result, [(raw, source)], assignments, agreed)
        lost = {each.part for each in doubtful}
        left_out = {
            part.place: f"{'.'.join(part.place)} ({part.name})"
            for part in self._marked_parts(result)
            if _is_left_out(part, part.place in lost, assignments)
        }
        result = without(result, left_out)
        return {"runner": {"name": "dev"}, **result}, list(left_out.values())

    def _marked_parts(self, raw: Raw) -> Iterator[_Part]:
        """Yield the parts with marked fields, and the plugins that such parts name."""
        pending = list(_parts(raw))
        for kind, place, part in pending:
            name = part.get("name")
            if not isinstance(name, str):
                continue
            try:
                marks = marked_fields(self._load(kind, name).Config)
            except MazeError:  # reported when the whole configuration is validated
                continue
            for field in (field for field, mark in marks.items() if mark.kind is Outside.PLUGIN):
                inner = _at(part, tuple(field.split(".")))
                pending += [("policy", (*place, *field.split(".")), inner)] if isinstance(inner, dict) else []
            if marks:
                yield _Part(place, name, part, marks)
        if isinstance(evaluation := raw.get("evaluation"), dict):
            yield _Part(("evaluation",), "evaluation", evaluation, marked_fields(EvaluationConfig))


def without_missing(
    raw: Raw, assignments: Assignments, load: discovery.Loader, observers: Mapping[str, str]
) -> tuple[Raw, list[str]]:
    """Return a configuration without the observers that cannot be used here, and what was left out.

    Their plugin is missing, cannot be imported, or takes other parameters than it did.

    `observers` are the callbacks that only observe, by key, with their names. One that an assignment sets stays.
    """
    missing: dict[Place, str] = {}
    for kind, place, part in _parts(raw):
        name = part.get("name")
        if kind == "callback" and observers.get(place[1]) == name and not _is_set((*place, ""), assignments):
            try:
                load(kind, str(name)).Config.model_validate(part)
            except (MazeError, ValidationError):
                missing[place] = f"{'.'.join(place)} ({name})"
    return without(raw, missing), list(missing.values())


def _is_skipped(part: Place, kind: Outside) -> bool:
    """Return True if evaluation leaves a part out that has a value of this kind, rather than asking."""
    effects = (Outside.FOLDER, Outside.ADDRESS, Outside.CONNECTION)
    return kind in effects and len(part) <= 2 and part[0] in ("wrappers", "callbacks", "runner")


def _is_left_out(part: _Part, has_lost: bool, assignments: Assignments) -> bool:
    fields = [field for field, mark in part.marks.items() if _is_skipped(part.place, mark.kind)]
    if part.place == ("runner",):
        return bool(fields) and not any(path[:1] == part.place for path, _ in assignments)
    if not fields or any(_is_set((*part.place, *field.split(".")), assignments) for field in fields):
        return False
    # A field that the file leaves out has its default, which may be a folder to write to.
    return has_lost or not any(field.partition(".")[0] in part.values for field in fields)


def without(raw: Raw, taken: Iterable[Reach | Place]) -> Raw:
    """Return a copy without the values `taken`."""
    result = assign(raw, ())
    places = [each.place if isinstance(each, Reach) else each for each in taken]
    for place in sorted(places, key=lambda place: [int(key) if key.isdigit() else -1 for key in place], reverse=True):
        owner = _at(result, place[:-1])
        del owner[int(place[-1]) if isinstance(owner, list) else place[-1]]
    return result


def _parts(raw: Raw) -> Iterator[tuple[str, Place, dict[str, Any]]]:
    wrappers, callbacks = raw.get("wrappers"), raw.get("callbacks")
    found: list[tuple[str, Place, Any]] = [(part, (part,), raw.get(part)) for part in PARTS]
    found += [(place[-1], place, _at(raw, place)) for place in NAMED]
    if isinstance(wrappers, list):
        found += [("wrapper", ("wrappers", str(index)), each) for index, each in enumerate(wrappers)]
    if isinstance(callbacks, dict):
        named = {key: {"name": key, **each} for key, each in callbacks.items() if isinstance(each, dict)}
        found += [("callback", ("callbacks", key), each) for key, each in named.items()]
    return ((kind, place, part) for kind, place, part in found if isinstance(part, dict))


def _is_set(place: Place, assignments: Assignments) -> bool:
    found = [(path, value) for path, value in assignments if place[: len(path)] == path]
    # A mapping for a whole part is merged into what is there.
    return any(path[0] not in PARTS or len(path) > 1 or _at(value, place[1:]) is not None for path, value in found)


def _at(tree: Any, place: Place) -> Any:
    for key in place:
        if isinstance(tree, list):
            tree = tree[int(key)] if key.isdigit() and int(key) < len(tree) else None
        else:
            tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
