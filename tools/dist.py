"""Builds every distribution of this repository into dist/, checks them, and tries them in an empty environment.

    python tools/dist.py               build, check and try
    python tools/dist.py --no-trial    build and check

A wheel must hold the licence, every file of its package and what an index shows of it; a source distribution must build
the same wheel. The trial installs all wheels beside the third-party packages of this Python, outside of the repository,
and types the README's first command, `maze plugins list`, `maze eval` and `maze export`.
"""

from __future__ import annotations

import argparse
import email
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.maze_devkit.scaffold.clean import CleanEnvironment  # noqa: E402 — from the folder above

OUT = ROOT / "dist"
WANTED = ("Name", "Version", "Summary", "License-Expression", "License-File", "Author", "Keywords", "Classifier")
"""What the metadata of every distribution say."""
_BUILD = """
import os, sys
import setuptools.build_meta as backend
os.chdir(sys.argv[1])
print(getattr(backend, sys.argv[2])(sys.argv[3]))
"""


def projects() -> list[Path]:
    """Return the folders of all distributions, the core first."""
    return [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]


def build(folder: Path, kind: str, out: Path) -> Path:
    """Build the `wheel` or the `sdist` of a folder; return the file."""
    command = [sys.executable, "-c", _BUILD, str(folder), f"build_{kind}", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{folder.name}: the {kind} cannot be built\n{done.stderr[-2000:]}")
    return out / done.stdout.splitlines()[-1]


def problems_of_wheel(wheel: Path, folder: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(about))
    for field in WANTED:
        if not metadata.get(field):
            yield f"its metadata have no {field}"
    if not metadata.get_payload():
        yield "its metadata have no description"
    if not any("/licenses/LICENSE" in name for name in names):
        yield "it has no licence text"
    package = "maze_core" if folder == ROOT else folder.name
    files = (path for path in (folder / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    missing = sorted({path.relative_to(folder).as_posix() for path in files} - {*names})
    if missing:
        yield f"it lacks {missing[0]}" + (f" and {len(missing) - 1} more files" if missing[1:] else "")


def problems_of_sdist(sdist: Path, wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a source distribution: the wheel that it builds must hold the same files."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        again = build(unpacked, "wheel", Path(folder))
        with zipfile.ZipFile(again) as ours, zipfile.ZipFile(wheel) as theirs:
            differing = {*ours.namelist()} ^ {*theirs.namelist()}
    if differing:
        yield f"the wheel that it builds differs in {min(differing)}"


def build_and_check() -> list[Path]:
    """Build all distributions; return the wheels. Ends with exit code 1 if one has a problem."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    wheels, found = [], []
    for folder in projects():
        wheel, sdist = build(folder, "wheel", OUT), build(folder, "sdist", OUT)
        wheels.append(wheel)
        found += [f"{wheel.name}: {each}" for each in problems_of_wheel(wheel, folder)]
        found += [f"{sdist.name}: {each}" for each in problems_of_sdist(sdist, wheel)]
        shutil.rmtree(folder / "build" / "lib", ignore_errors=True)
    if found:
        raise SystemExit("\n".join(found))
    print(f"{len(wheels)} wheels and as many source distributions in {OUT}: nothing to mend")
    return wheels


def trial(wheels: Sequence[Path]) -> None:
    """Install all wheels outside of the repository, and type what a newcomer types."""
    with tempfile.TemporaryDirectory() as folder:
        clean = CleanEnvironment(Path(folder) / "clean")
        clean.install(*wheels)
        listed = json.loads(clean.maze("plugins", "list", "--json", folder=clean.home))
        broken = [f"{each['kind']} {each['name']}: {each['detail']}" for each in listed if each["state"] != "ok"]
        elsewhere = [f"{each['file']} is not of a wheel" for each in listed if not each["file"].startswith(folder)]
        if broken or elsewhere:
            raise SystemExit("\n".join([*broken, *elsewhere]))
        run = ("--env", "CartPole-v1", "--steps", "2000", "--run-dir", "run", "--quiet")
        for typed in (("train", "ppo", *run), ("eval", "run"), ("export", "run", "--out", "policy.onnx")):
            clean.maze(*typed, folder=clean.home)
    print(f"{len(listed)} plugins of the wheels are well; a run trains, is evaluated and exported")


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-trial", action="store_true", help="only build and check")
    options = parser.parse_args()
    wheels = build_and_check()
    if not options.no_trial:
        trial(wheels)


if __name__ == "__main__":
    main()
