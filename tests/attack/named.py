"""Names and texts of a stranger's: escape sequences, newlines, quotes and length, wherever a command may print them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.attack.damage import resealed
from tests.attack.oracle import problems_of
from tests.attack.runs import DEMOS, RUN, plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import COMMANDS, World

FORGED = "FORGED"
TEXTS = (
    "\x1b[2J\x1b[31mred\x1b[0m", f"a\n{FORGED} line", f"a\r{FORGED}", "\x9b31m", "bell\a\b\b", f"a\u2028{FORGED}",
    "\u202egnol", f"x\n\nerror: {FORGED}", "\x1b]0;title\a", "\x1b]8;;http://a/\x1b\\link\x1b]8;;\x1b\\", "a" * 100_000,
    "'; touch owned; '", "$(touch owned)", "a\x00b", "\ud800", "[red]markup[/red]", "{0} %s {name}",
)  # fmt: skip


def in_folder_name(world: Path, text: str) -> str:
    """The run's own folder; what it is called then."""
    name = text.replace("/", "|").replace("\x00", "0").encode(errors="replace").decode()[:80]
    (world / RUN).rename(world / name)
    return name


def in_recording_name(world: Path, text: str) -> str:
    name = text.replace("/", "|").replace("\x00", "0").encode(errors="replace").decode()[:80]
    (world / DEMOS).rename(world / name)
    return name


def _yaml(change: Callable[[Any, str], None]) -> Callable[[Path, str], str]:
    def apply(world: Path, text: str) -> str:
        path = world / RUN / "config.yaml"
        config = yaml.safe_load(path.read_text())
        change(config, text)
        path.write_text(json.dumps(config))  # JSON is YAML, and escapes everything
        return RUN

    return apply


def _json(file: str, change: Callable[[Any, str], None]) -> Callable[[Path, str], str]:
    def apply(world: Path, text: str) -> str:
        path = world / file
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        documents = [json.loads(line) for line in lines]
        for document in documents:
            change(document, text)
        path.write_text("".join(json.dumps(resealed(document)) + "\n" for document in documents))
        return RUN

    return apply


def _at(*keys: str) -> Callable[[Any, str], None]:
    def change(document: Any, text: str) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = text

    return change


def _key_at(*keys: str) -> Callable[[Any, str], None]:
    def change(document: Any, text: str) -> None:
        for key in keys:
            document = document[key]
        document[text] = 1

    return change


_EVERY = ("list", "list as a table", "compare", "compare as a table", "eval", "resume")
_INFO = ("info", "info as a table")
PLACES: dict[str, tuple[Callable[[Path, str], str], tuple[str, ...]]] = {
    "the run's folder": (in_folder_name, _EVERY),
    "the recording's folder": (in_recording_name, _INFO),
    "env.id": (_yaml(_at("env", "id")), _EVERY),
    "env.name": (_yaml(_at("env", "name")), _EVERY),
    "a key of env.kwargs": (_yaml(_key_at("env", "kwargs")), _EVERY),
    "algorithm.name": (_yaml(_at("algorithm", "name")), _EVERY),
    "algorithm.lr": (_yaml(_at("algorithm", "lr")), _EVERY),
    "a key of algorithm": (_yaml(_key_at("algorithm")), _EVERY),
    "a key of callbacks": (_yaml(_key_at("callbacks")), _EVERY),
    "a key of the configuration": (_yaml(_key_at()), _EVERY),
    "runner.name": (_yaml(_at("runner", "name")), _EVERY),
    "summary.reason": (_json(f"{RUN}/run.json", _at("summary", "reason")), _EVERY),
    "summary.outcome": (_json(f"{RUN}/run.json", _at("summary", "outcome")), _EVERY),
    "started": (_json(f"{RUN}/run.json", _at("started")), _EVERY),
    "observation_space": (_json(f"{RUN}/run.json", _at("observation_space")), _EVERY),
    "a key of run.json": (_json(f"{RUN}/run.json", _key_at()), _EVERY),
    "a metric's name": (_json(f"{RUN}/metrics.jsonl", _key_at()), _EVERY),
    "a metric": (_json(f"{RUN}/metrics.jsonl", _at("eval/return_mean")), _EVERY),
    "a manifest's file": (_json(f"{RUN}/checkpoints/best/manifest.json", _key_at("files")), ("eval",)),
    "a manifest's format": (_json(f"{RUN}/checkpoints/last/manifest.json", _at("format")), ("resume",)),
    "a recording's source": (_json(f"{DEMOS}/trajectories.json", _at("source", "policy")), _INFO),
    "a key of a source": (_json(f"{DEMOS}/trajectories.json", _key_at("source")), _INFO),
    "a recording's format": (_json(f"{DEMOS}/trajectories.json", _at("format")), _INFO),
    "a recorded space's type": (_json(f"{DEMOS}/trajectories.json", _at("observation_space", "type")), _INFO),
    "an episode's checksums": (_json(f"{DEMOS}/episodes.jsonl", _key_at("crc32")), _INFO),
}


class Named:
    """Cases: a text at a place, and a command that may print it."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._world = World(plan_of(subject), scratch)
        self._subject = subject
        self._combinations = [
            (place, text, command) for place, (_, commands) in PLACES.items() for text in TEXTS for command in commands
        ]
        random.Random(f"{seed} {subject}").shuffle(self._combinations)

    def names(self, count: int) -> list[str]:
        """So many cases."""
        return [str(number) for number in range(count)]

    def try_(self, name: str) -> Verdict:
        """Write the text there, run, look at what is printed."""
        place, text, command = self._combinations[int(name) % len(self._combinations)]
        verdict = Verdict(f"named/{self._subject}/{name}", "names and texts of a stranger's")
        verdict.what = f"{text[:30]!r} as {place}, then {command}"
        self._world.begin()
        called = PLACES[place][0](self._world.folder, text)
        own = {RUN, DEMOS} if called == RUN else {called}
        there = [part for part in COMMANDS[command] if part in own or part not in (RUN, DEMOS)]
        if len(there) < len(COMMANDS[command]):
            there = [called if part in (RUN, DEMOS) else part for part in COMMANDS[command]]
        ending = self._world.run_case(name, there)
        verdict.problems = problems_of(ending) + self._world.changes_outside()
        if any(line.lstrip().startswith(FORGED) for line in (ending.out + ending.err).splitlines()):
            verdict.problems.append(f"a line of its own for the stranger: {(ending.out + ending.err)[-300:]!r}")
        if ending.code and max(map(len, ending.err.splitlines()), default=0) > 1000:
            verdict.problems.append("an error of more than a thousand characters")
        if (self._world.folder / "owned").exists():
            verdict.problems.append("what a name said was executed")
        return verdict
