"""An environment without this repository: a virtual one that has the third-party packages of this Python, and no Maze.

Installing torch takes minutes, so what is installed here is linked to. What belongs to Maze, editable installs above
all, is left out, and no variable leads back here.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = ROOT / "plugins"
KIT = tuple(PLUGINS / f"maze_{name}" for name in ("devkit", "recordings", "compare", "sweep", "curricula"))
"""The kit, and what searchers and teachers build on."""
PUBLISHED = (ROOT, PLUGINS / "maze_ppo", *KIT)
"""What slow tests install from wheels."""
OFFLINE = (
    "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-compile",
)  # fmt: skip
_BUILD = """
import importlib, os, sys, tomllib
hook, target, *sources = sys.argv[1:]
import setuptools.build_meta
for source in sources:
    if os.fork() == 0:
        os.chdir(source)
        with open("pyproject.toml", "rb") as file:
            backend = tomllib.load(file)["build-system"]["build-backend"]
        getattr(importlib.import_module(backend), hook)(target)
        sys.exit()
    if os.wait()[1]:
        sys.exit(f"{source} cannot be built")
"""
"""What pip does to build distributions, in a process forked for each: most of its time goes into starting."""
_TYPED = """
import atexit, gc, importlib, json, os, sys, threading
for name in sys.argv[1:]:
    importlib.import_module(name)
from maze_core.cli.main import main
gc.freeze()
for line in sys.stdin:
    folder, printed, typed = json.loads(line)
    if os.fork() == 0:
        os.chdir(folder)
        sys.argv, code = ["maze", *typed], 1
        for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), *[os.open(printed, os.O_WRONLY)] * 2)):
            os.dup2(file, number)
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        finally:  # all but taking the interpreter apart, which copies all memory
            threading._shutdown()
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
"""What the script `maze` does, in a process forked for each command."""


class CleanEnvironment:
    """A virtual environment below `folder`, in which only what `install` puts there is Maze."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        self.home.mkdir(parents=True)
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv" / "bin" / "python"
        (self._site_packages / "third_party.pth").write_text(f"{self._third_party()}\n", encoding="utf-8")

    @property
    def _site_packages(self) -> Path:
        return next((self.folder / "venv" / "lib").glob("python*/site-packages"))

    @property
    def _variables(self) -> dict[str, str]:
        return {
            "PATH": f"{self.python.parent}{os.pathsep}{os.defpath}",
            "HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }

    def _third_party(self) -> Path:
        """Links to everything installed beside this Python but Maze and what is editable."""
        links = self.folder / "third_party"
        links.mkdir()
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.lower().startswith(("maze", "__editable__")) and entry.suffix != ".pth":
                (links / entry.name).symlink_to(entry)
        return links

    def install(self, *what: str | Path) -> None:
        """`pip install`, without any network; a file that is given twice counts once."""
        files = {Path(each).name: each for each in what}.values()
        self.run(self.python, "-m", "pip", "install", *OFFLINE, *files)

    def install_editable(self, folders: Sequence[Path]) -> None:
        """`pip install -e FOLDER`, for several."""
        target = self.folder / "editable"
        target.mkdir()
        self.run(self.python, "-c", _BUILD, "build_editable", target, *folders)
        self.install(*target.iterdir())

    @contextmanager
    def typing(self, *modules: str) -> Iterator[Callable[..., str]]:
        """Yield `maze`, for many commands that need these modules, which are imported once.

        Plugins that are installed inside the block may not be found.
        """
        parent = subprocess.Popen(
            [str(self.python), "-W", "ignore", "-c", _TYPED, *modules],
            cwd=self.home,
            env=self._variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

        def maze(*arguments: str | Path, folder: Path, code: int = 0) -> str:
            with tempfile.NamedTemporaryFile("r") as printed:
                parent.stdin.write(json.dumps([str(folder), printed.name, [str(part) for part in arguments]]) + "\n")
                parent.stdin.flush()
                found = parent.stdout.readline().strip()
                text = printed.read()
            assert found == str(code), f"maze {arguments} ended with {found}:\n{text}"
            return text

        try:
            yield maze
        finally:
            parent.communicate()

    def maze(self, *arguments: str | Path, folder: Path, code: int = 0) -> str:
        """The command `maze` of this environment, typed in `folder`; what it printed."""
        return self.run(self.python.with_name("maze"), *arguments, folder=folder, code=code)

    def run(self, *command: str | Path, folder: Path | None = None, code: int = 0) -> str:
        """Run a command in this environment, as a user does who has nothing else; what it printed."""
        result = subprocess.run(
            [str(part) for part in command],
            cwd=folder or self.home,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == code, f"{command} ended with {result.returncode}:\n{result.stdout}"
        return result.stdout


def with_needs(*sources: Path) -> list[Path]:
    """Return folders of distributions, and those of Maze's that they need, but for the core."""
    found, waiting = [], list(sources)
    while waiting:
        folder = waiting.pop(0)
        if folder not in found:
            found.append(folder)
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            names = [re.split(r"[^\w-]", each)[0].replace("-", "_") for each in project["dependencies"]]
            places = [ROOT / kind / name for kind in ("libraries", "plugins") for name in names]
            waiting += [place for place in places if (place / "pyproject.toml").is_file()]
    return found


def build_wheels(folder: Path, *sources: Path) -> list[Path]:
    """The wheels of distributions and of those that they need.

    They are built from copies of their sources, so that nothing is left behind in these.
    """
    sources = tuple(with_needs(*sources))
    target, copies = folder / "wheels", [folder / f"source-{source.name}" for source in sources]
    target.mkdir(parents=True)
    for source, copy in zip(sources, copies, strict=True):
        copy.mkdir()
        for entry in source.iterdir():
            if entry.name in ("pyproject.toml", "README.md", "LICENSE"):
                shutil.copy(entry, copy)
            elif entry.name.startswith("maze_"):
                shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-c", _BUILD, "build_wheel", str(target), *map(str, copies)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wheels = list(target.glob("*.whl"))
    assert len(wheels) == len(sources)
    return sorted(wheels)


def shared_wheels(factory: pytest.TempPathFactory, *sources: Path) -> list[Path]:
    """The wheels of distributions and of those that they need, in a folder without any other one.

    All processes of a session build them once: what lies beside the wheel of the core is what Maze tells to install.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared-wheels"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "all").exists():
            build_wheels(folder / "new", *PUBLISHED)
            (folder / "new" / "wheels").rename(folder / "all")
    wheels = {wheel.name.partition("-")[0]: wheel for wheel in (folder / "all").iterdir()}
    own = factory.mktemp("wheels")
    names = ("maze_core" if source == ROOT else source.name for source in with_needs(*sources))
    return sorted(Path(shutil.copy(wheels[name], own)) for name in names)


def main() -> None:
    """What stands for `python -m venv FOLDER` in tests of the documentation: Maze itself is installed already."""
    environment = CleanEnvironment(Path(sys.argv[1]).resolve())
    environment.install(*build_wheels(environment.home, ROOT, ROOT / "plugins" / "maze_recordings"))


if __name__ == "__main__":
    main()
