"""Doors that a stranger's run, recording or folder might find open: a fixed list."""

from __future__ import annotations

import json
import resource
import shutil
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from maze_core.plugins import discovery
from tests.attack.damage import forge, resealed
from tests.attack.oracle import problems_of
from tests.attack.runs import RUN, plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import COMMANDS, World

EVIL = "from pathlib import Path\nPath({path!r}).touch()\n"
MISSING = (
    "tensorflow", "imageio", "pygame", "cloudpickle", "matplotlib", "ray", "jax", "boto3", "notf", "moviepy",
    "zstandard", "msvcrt", "brotli", "orjson", "win32api", "_winreg", "pandas", "numba", "onnx", "sitecustomize",
)  # fmt: skip
"""Modules that libraries try to import and do without."""
Prepared = Callable[[World], None]


def _config(world: World, change: Callable[[Any], None]) -> None:
    path = world.folder / RUN / "config.yaml"
    config = yaml.safe_load(path.read_text())
    change(config)
    path.write_text(yaml.safe_dump(config))


def _recording_to(place: str) -> Prepared:
    def prepare(world: World) -> None:
        folder = place.format(outside=world.outside)
        _config(world, lambda config: config.update(wrappers=[{"name": "record", "folder": folder}]))

    return prepare


def _env(identity: str, source: str = "") -> Prepared:
    def prepare(world: World) -> None:
        _config(world, lambda config: config["env"].update(id=identity))
        if source:
            (world.folder / "theirs.py").write_text(source)

    return prepare


def _called(identity: str, **kwargs: Any) -> Prepared:
    """A function, with arguments of its, in place of an environment with several agents."""

    def prepare(world: World) -> None:
        filled = {key: value.format(outside=world.outside) for key, value in kwargs.items()}
        _config(world, lambda config: config.update(env={"name": "pettingzoo", "id": identity, "kwargs": filled}))

    return prepare


def _distribution(world: World) -> None:
    """A distribution in the current folder that claims to bring plugins of every kind."""
    folder = world.folder / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    groups = [name.removeprefix("maze.") for name in discovery.KINDS.values()]
    lines = [f"[maze.{group}]\nother = theirs_evil:Plugin" for group in groups]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (world.folder / "theirs_evil.py").write_text(EVIL.format(path=str(world.outside / "executed")))
    _config(world, lambda config: config["callbacks"].update(other={}))


def _beside(world: World) -> None:
    """Modules in the current folder that have the names of libraries which are not installed."""
    bundled = {name for each in discovery.declarations() for name in (each.entry_point.module.partition(".")[0],)}
    for name in {*MISSING, *bundled} - {"maze_core"}:
        (world.folder / f"{name}.py").write_text(EVIL.format(path=str(world.outside / name)))


def _in_the_run(world: World) -> None:
    """Modules within the run."""
    for folder in (world.folder / RUN, world.folder / RUN / "checkpoints"):
        for name in (*MISSING, "sitecustomize", "usercustomize", "conftest", "__init__", "gymnasium", "torch"):
            (folder / f"{name}.py").write_text(EVIL.format(path=str(world.outside / name)))


def _segment(world: World) -> None:
    """Replay data in a file outside."""
    folder = world.folder / RUN / "checkpoints" / "last"
    text = (folder / "state.json").read_text()
    (folder / "state.json").write_text(text.replace("000001.rows", "../../outside/file"))
    forge(folder)


def _manifest(world: World) -> None:
    """A checkpoint whose manifest names files outside."""
    path = world.folder / RUN / "checkpoints" / "best" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["../../../outside/file"] = "0" * 64
    manifest["files"]["/etc/passwd"] = "0" * 64
    path.write_text(json.dumps(resealed(manifest)))


def _checkpoints_elsewhere(world: World) -> None:
    """Another run's checkpoints behind a link."""
    shutil.move(world.folder / RUN / "checkpoints", world.outside / "checkpoints")
    (world.folder / RUN / "checkpoints").symlink_to(world.outside / "checkpoints")


DOORS: dict[str, tuple[Prepared, tuple[str, ...]]] = {
    "record outside": (_recording_to("{outside}/theirs"), ("eval", "rollout", "resume")),
    "record above": (_recording_to("../outside/theirs"), ("eval", "rollout", "resume")),
    "record through a link": (_recording_to("link/theirs"), ("eval", "resume")),
    "record at home": (_recording_to("~/theirs-of-the-attack"), ("eval",)),
    "a distribution here": (_distribution, ("eval", "resume", "rollout", "list", "info")),
    "modules here": (_beside, ("eval", "resume", "rollout", "list", "compare", "info")),
    "modules in the run": (_in_the_run, ("eval", "resume", "list")),
    "replay outside": (_segment, ("resume",)),
    "manifest outside": (_manifest, ("eval", "resume")),
    "another run's checkpoints": (_checkpoints_elsewhere, ("resume", "eval")),
    "an env that exits": (_env("theirs:X-v0", "import sys\nsys.exit(0)\n"), ("eval", "resume", "rollout")),
    "an env that exits with a word": (_env("theirs:X-v0", "raise SystemExit('bye')\n"), ("eval",)),
    "an env that is no Python": (_env("theirs:X-v0", "def (:\n"), ("eval", "resume")),
    "an env of bytes": (_env("theirs:X-v0", "\0\0"), ("eval",)),
    "an env that raises": (_env("theirs:X-v0", "raise BaseException('no')\n"), ("eval",)),
    "an env of no module": (_env(".:X"), ("eval", "resume")),
    "an env of nothing": (_env(":"), ("eval",)),
    "an env of many": (_env("a:b:c"), ("eval",)),
    "an env above": (_env("..outside.evil:X"), ("eval",)),
    "a module here": (_env("theirs:X-v0", EVIL.format(path="../outside/executed")), ("eval", "rollout", "resume")),
    "a command to call": (_called("os:system", command="touch {outside}/called"), ("eval", "rollout", "resume")),
    "a command to start": (_called("subprocess:getoutput", cmd="touch {outside}/called"), ("eval", "resume")),
    "a folder to remove": (_called("shutil:rmtree", path="{outside}"), ("eval", "rollout")),
    "a program to run": (_called("runpy:run_path", path_name="{outside}/file"), ("eval",)),
    "a file to write": (_called("numpy:savetxt", fname="{outside}/called", X="1"), ("eval", "resume")),
    "a module to import": (_called("gymnasium:make", id="theirs:X-v0"), ("eval",)),
    "a foreign cluster": (lambda world: None, ("eval", "resume")),
}
AFRESH = ("a distribution here", "modules here", "modules in the run", "a foreign cluster")
"""What a process that has imported everything would not show."""


class Doors:
    """Cases: a door and a command."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._world, self._subject = World(plan_of(subject), scratch), subject
        self._cases = {f"{door}, {command}": (door, command) for door, (_, own) in DOORS.items() for command in own}

    def names(self, count: int) -> list[str]:
        """All, or the first so many: those that need a process of their own come last."""
        return sorted(self._cases, key=lambda name: self._cases[name][0] in AFRESH)[:count]

    def parts(self) -> dict[str, tuple[str, ...]]:
        """The door of each case, but of those that need a process of their own."""
        return {name: (door,) for name, (door, _) in self._cases.items() if door not in AFRESH}

    def try_(self, name: str) -> Verdict:
        """Set it up, run the command, look around."""
        door, command = self._cases[name]
        verdict = Verdict(f"doors/{self._subject}/{name}", "open doors", f"{door}, then {command}")
        world = self._world
        world.begin()
        (world.folder / "link").symlink_to(world.outside)
        DOORS[door][0](world)
        world.seal()
        codes = {"resume": (0, 1, 2)}.get(command, (0, 2))
        with closing(socket.create_server(("127.0.0.1", 0))) as listener:
            if door == "a foreign cluster":
                address = f"127.0.0.1:{listener.getsockname()[1]}"
                runner = {"name": "ray", "address": address}
                _config(world, lambda config: config.update(runner=runner))
            ending = world.run(COMMANDS[command], afresh=door in AFRESH, memory=resource.RLIM_INFINITY)
            listener.setblocking(False)
            try:
                listener.accept()[0].close()
                verdict.problems.append("connected to a stranger's cluster")
            except BlockingIOError:
                pass
        verdict.problems += problems_of(ending, codes) + world.changes_outside()
        home = Path("~/theirs-of-the-attack").expanduser()
        if home.exists():
            shutil.rmtree(home)
            verdict.problems.append("wrote into the home folder")
        if door.startswith("an env") and ending.code == 0 and command in ("eval", "rollout", "resume"):
            verdict.problems.append("exit 0, though there is no such environment")
        return verdict
