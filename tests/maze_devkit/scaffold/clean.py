"""An environment without this repository: a virtual one that has the third-party packages of this Python, and no Maze.

Installing torch takes minutes, so what is installed here is linked to. What belongs to Maze, editable installs above
all, is left out, and no variable leads back here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OFFLINE = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")


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

    def _third_party(self) -> Path:
        """Links to everything installed beside this Python but Maze and what is editable."""
        links = self.folder / "third_party"
        links.mkdir()
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if not entry.name.lower().startswith(("maze", "__editable__")) and entry.suffix != ".pth":
                (links / entry.name).symlink_to(entry)
        return links

    def install(self, *what: str | Path) -> None:
        """`pip install`, without any network."""
        self.run(self.python, "-m", "pip", "install", *OFFLINE, *what)

    def maze(self, *arguments: str | Path, folder: Path, code: int = 0) -> str:
        """The command `maze` of this environment, typed in `folder`; what it printed."""
        return self.run(self.python.with_name("maze"), *arguments, folder=folder, code=code)

    def run(self, *command: str | Path, folder: Path | None = None, code: int = 0) -> str:
        """Run a command in this environment, as a user does who has nothing else; what it printed."""
        result = subprocess.run(
            [str(part) for part in command],
            cwd=folder or self.home,
            env={
                "PATH": f"{self.python.parent}{os.pathsep}{os.defpath}",
                "HOME": str(self.home),
                "OMP_NUM_THREADS": "1",
                "COLUMNS": "200",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == code, f"{command} ended with {result.returncode}:\n{result.stdout}"
        return result.stdout


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a distribution, built from a copy of its sources, so that nothing is left behind in them."""
    copy, target = folder / f"source-{source.name}", folder / f"wheel-{source.name}"
    copy.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(entry, copy)
        elif entry.name.startswith("maze_"):
            shutil.copytree(entry, copy / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", str(target), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = target.glob("*.whl")
    return wheel


def main() -> None:
    """What stands for `python -m venv FOLDER` in tests of the documentation: Maze itself is installed already."""
    environment = CleanEnvironment(Path(sys.argv[1]).resolve())
    environment.install(build_wheel(ROOT, environment.home))


if __name__ == "__main__":
    main()
