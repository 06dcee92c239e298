"""What people share: addresses, policies with their cards, CSV files, and reports that are made of all that.

Nothing of it may be executed, write anywhere but where the command was told to, or become markup.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

from maze_publish import manifest

from tests.attack.children import Ending, in_child, maze
from tests.attack.damage import mutations, value_changed
from tests.attack.made_texts import RARE, TEXTS, csv_of, damaged_archive, hostile_address
from tests.attack.markup import problems_of_page
from tests.attack.oracle import problems_of
from tests.attack.runs import RUN, plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import World

SUBJECTS = ("addresses", "policies", "cards", "csv", "reports")
NAMES = {"csv": "CSV files"}
CANARY = "owned"
"""What a text would make, if a shell, a spreadsheet or a template executed it."""
FORMATS = {"html": "report.html", "markdown": "report.md", "latex": "report.tex"}
Command = list[object]


class Shared:
    """Cases of one subject; each is decided by its number and the seed."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._subject, self._seed, self._scratch = subject, seed, scratch
        self._world = World(plan_of("ppo"), scratch)
        self._make: Callable[[random.Random], tuple[str, Command]] = getattr(self, f"_{subject}")
        self._contents = self._published()
        self._allowed: set[str] = set()

    def names(self, count: int) -> list[str]:
        """So many cases."""
        return [str(number) for number in range(count)]

    def try_(self, name: str) -> Verdict:
        """Make what is hostile, run the command, look around."""
        chance = random.Random(f"{self._seed} {self._subject} {name}")
        kind = f"shared: {NAMES.get(self._subject, self._subject)}"
        verdict = Verdict(f"shared/{self._subject}/{name}", kind)
        self._world.begin()
        (self._world.folder / "theirs.py").write_text(f"open({str(self._world.outside / CANARY)!r}, 'w')\n")
        self._allowed = {"cache"}
        what, command = self._make(chance)
        verdict.what = f"{what}, then maze {' '.join(map(repr, command))}"[:300]
        before = self._there()
        ending = self._run(command)
        verdict.problems = problems_of(ending, codes=(0, 1, 2)) + self._world.changes_outside()
        made = sorted(self._there() - before)
        if strange := [each for each in made if each not in ({"cache"} if ending.code else self._allowed)]:
            verdict.problems.append(f"wrote {', '.join(map(repr, strange))[:200]}")
        for file in made:
            verdict.problems += problems_of_page(self._world.folder / file)
        return verdict

    def _there(self) -> set[str]:
        return {path.name for path in self._world.folder.iterdir()}

    def _run(self, command: Command) -> Ending:
        called = maze(command)

        def action() -> int:
            os.environ["XDG_CACHE_HOME"] = str(self._world.folder / "cache")
            os.environ["HOME"] = str(self._world.folder / "cache")
            return called()

        return in_child(action, self._world.folder, self._scratch)

    def _published(self) -> dict[str, bytes]:
        """Return the files of a policy by name, without its manifest."""
        self._world.begin()
        ending = self._run(["publish", RUN, "--to", "policy", "--episodes", 10])
        if ending.code:
            raise RuntimeError(f"a healthy run cannot be published: {ending.err}")
        folder = self._world.folder / "policy"
        files = (path for path in folder.rglob("*") if path.is_file() and path.name != manifest.NAME)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    def _place(self, contents: dict[str, bytes], chance: random.Random) -> str:
        """Write a policy whose manifest fits, as a folder or an archive; return its address."""
        from maze_publish.archive import packed

        files = {**contents, manifest.NAME: manifest.encode(contents)}
        if chance.random() < 0.5:
            (self._world.folder / "x.zip").write_bytes(packed(files))
            return "x.zip"
        for name, data in files.items():
            path = self._world.folder / "x" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return "x"

    def _opened(self, address: str, chance: random.Random) -> Command:
        """A command that opens an address."""
        self._allowed |= {"got"}
        fetch: Command = ["fetch", address, "--dir", "got"]
        play: Command = ["eval", address, "-n", 1, "--json"]
        return chance.choice((fetch, fetch, play))

    def _addresses(self, chance: random.Random) -> tuple[str, Command]:
        address = hostile_address(chance)
        if chance.random() < 0.1:
            return "an address", ["zoo", "show", "--", address]
        return "an address", self._opened(address, chance)

    def _policies(self, chance: random.Random) -> tuple[str, Command]:
        """A policy of which a file is another one, with fitting sums; or a damaged archive, or manifest."""
        from maze_publish.archive import packed

        contents = dict(self._contents)
        name = chance.choice(sorted(contents))
        form = chance.random()
        if form < 0.5:
            contents[name] = chance.choice(mutations(name))(chance, contents[name])
            return f"another {name}", self._opened(self._place(contents, chance), chance)
        listed = manifest.encode(contents)
        if form < 0.7:
            files = {**contents, manifest.NAME: chance.choice(mutations(manifest.NAME))(chance, listed)}
            data, what = packed(files), "another manifest"
        else:
            what, data = damaged_archive(chance, packed({**contents, manifest.NAME: listed}))
        (self._world.folder / "x.zip").write_bytes(data)
        return what, self._opened("x.zip", chance)

    def _cards(self, chance: random.Random) -> tuple[str, Command]:
        """A card of a stranger's that is shown; or texts of a stranger's in a card that Maze writes."""
        if chance.random() < 0.5:
            contents = dict(self._contents)
            data = contents[manifest.CARD]
            for _ in range(chance.randint(0, 3)):
                data = value_changed(chance, data)
            contents[manifest.CARD] = _with_texts(data, chance)
            return "another card", self._opened(self._place(contents, chance), chance)
        self._allowed |= {"shared"}
        told: Command = ["--note", chance.choice(TEXTS), f"--name={chance.choice(TEXTS)}"]
        return "texts of a card", ["publish", RUN, "--to", "shared", "--episodes", 0, *told]

    def _csv(self, chance: random.Random) -> tuple[str, Command]:
        what = chance.choice(list(RARE)) if chance.random() < 0.15 else ""
        file = self._world.folder / "x.csv"
        if what:
            RARE[what](file, self._world.outside)
        else:
            what = "a CSV file"
            file.write_bytes(csv_of(chance))
        self._allowed |= {"out.csv", "x.svg", *FORMATS.values()}
        scale: Command = ["--normalize", chance.choice(("range", "range", "none", "atari", "x.csv"))]
        told: Command = chance.choice(([], ["--json"], ["--export", "out.csv"], ["--minimize"], ["--take", "best"]))
        return what, ["runs", "aggregate", "--csv", "x.csv", *scale, *told, "--resamples", 100]

    def _reports(self, chance: random.Random) -> tuple[str, Command]:
        """Texts of a stranger's in a run or in a CSV file, in each format."""
        form = chance.choice(list(FORMATS))
        self._allowed |= {FORMATS[form]}
        told: Command = ["--format", form, "--resamples", 100, f"--title={chance.choice(('', *TEXTS))}"]
        if chance.random() < 0.5:
            (self._world.folder / "x.csv").write_bytes(csv_of(chance, harm=0.0))
            return "names in a CSV file", ["report", "--csv", "x.csv", "--normalize", "range", *told]
        for file in (f"{RUN}/config.yaml", f"{RUN}/run.json"):
            path = self._world.folder / file
            path.write_bytes(_with_texts(path.read_bytes(), chance))
        return "texts of a run", ["report", RUN, *told]


def _with_texts(data: bytes, chance: random.Random) -> bytes:
    """A document in which some texts are a stranger's, if it is one."""
    import json

    import yaml

    try:
        document = yaml.safe_load(data) if not data.lstrip().startswith(b"{") else json.loads(data)
    except (ValueError, yaml.YAMLError, RecursionError):
        return data

    def change(value: object) -> object:
        if isinstance(value, dict):
            return {key: change(each) for key, each in value.items()}
        if isinstance(value, list):
            return [change(each) for each in value]
        return chance.choice(TEXTS) if isinstance(value, str) and chance.random() < 0.2 else value

    return json.dumps(change(document)).encode(errors="surrogatepass") if isinstance(document, dict) else data
