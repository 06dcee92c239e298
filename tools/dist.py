"""Builds every distribution of this repository into dist/, checks them, and tries them in an empty environment.

    python tools/dist.py               build, check and try
    python tools/dist.py --no-trial    build and check

A wheel must hold the licence, every file of its package and what an index shows of it; a source distribution must build
the same wheel. Links in READMEs that only work within the repository become links below the project's `Repository`
address; without one, their text stays. `twine check` looks at all of them. The trial installs all wheels beside the
third-party packages of this Python, outside of the repository, and types the README's first command,
`maze plugins list`, `maze eval`, `maze export` and `maze view`. Then each is tried alone, with what it requires.
"""

from __future__ import annotations

import argparse
import email
import json
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests.maze_devkit.scaffold.clean import CleanEnvironment  # noqa: E402
from tests.repository import folders  # noqa: E402 — from the folder above
from tools.alone import alone  # noqa: E402

OUT = ROOT / "dist"
_ALSO_SHIPPED = ("pyproject.toml", "LICENSE", "MANIFEST.in", "CHANGELOG.md", "CITATION.cff", "constraints.txt", "tests")
"""What a distribution has beside its package and its README, where it is in the folder."""
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?://|mailto:|#)(?P<target>[^)\s]+)\)")
"""A link of Markdown that leads nowhere on the page of an index."""
_CACHES = shutil.ignore_patterns("__pycache__", "*.py[cod]")
WANTED = ("Name", "Version", "Summary", "License-Expression", "License-File", "Author", "Keywords", "Classifier")
"""What the metadata of every distribution say."""
TYPED = (
    ("train", "ppo", "--env", "CartPole-v1", "--steps", "2000", "--run-dir", "run", "--quiet"),
    ("eval", "run"),
    ("export", "run", "--out", "policy.onnx"),
    ("view", "run", "--out", "run.html"),
)
"""What a newcomer types after `maze`."""
_BUILD = """
import os, sys
import setuptools.build_meta as backend
os.chdir(sys.argv[1])
print(getattr(backend, sys.argv[2])(sys.argv[3]))
"""


def projects() -> list[Path]:
    """Return the folders of all distributions, the core first."""
    return [ROOT, *folders(), ROOT / "tools" / "maze_all"]


def description(readme: str, within: str, address: str | None) -> str:
    """Return a README as an index shows it.

    Args:
        readme: its text.
        within: its folder in the repository, such as `plugins/maze_a2c`; empty for the root.
        address: of the repository on the web, where its files are below `blob/main/`; None: links become their text.
    """

    def lead(link: re.Match[str]) -> str:
        if address is None:
            return "" if link["picture"] else link["text"]
        path, mark, anchor = link["target"].partition("#")
        place = posixpath.normpath(posixpath.join(within, path))
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({address.rstrip('/')}/{kind}/main/{place}{mark}{anchor})"

    parts = re.split(r"(^```.*?^```$)", readme, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(lead, part) for part in parts)


def copied(folder: Path, target: Path) -> Path:
    """Copy what a distribution ships, with the README that an index shows; return the copy."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    target.mkdir(parents=True)
    for entry in folder.iterdir():
        if entry.name in _ALSO_SHIPPED or entry.name == _package(folder):
            copy = shutil.copytree if entry.is_dir() else shutil.copy
            copy(entry, target / entry.name, **({"ignore": _CACHES} if entry.is_dir() else {}))
    within = "" if folder == ROOT else folder.relative_to(ROOT).as_posix()
    text = (folder / "README.md").read_text(encoding="utf-8")
    address = project.get("urls", {}).get("Repository")
    (target / "README.md").write_text(description(text, within, address), encoding="utf-8")
    return target


def _package(folder: Path) -> str:
    """Return the name of a distribution's package."""
    return "maze_core" if folder == ROOT else folder.name


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
    text = str(metadata.get_payload())
    if not text.strip():
        yield "its metadata have no description"
    if metadata.get("Description-Content-Type") != "text/markdown":
        yield "its metadata do not say that the description is Markdown"
    if text != description(text, "", None):
        yield "its description has links that lead nowhere on an index"
    if not any("/licenses/LICENSE" in name for name in names):
        yield "it has no licence text"
    files = (
        path for path in (folder / _package(folder)).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    missing = sorted({path.relative_to(folder).as_posix() for path in files} - {*names})
    if missing:
        yield f"it lacks {missing[0]}" + (f" and {len(missing) - 1} more files" if missing[1:] else "")


def problems_of_sdist(sdist: Path, wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a source distribution: the wheel that it builds must hold the same files."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        tested = (unpacked / "tests" / "conftest.py").is_file()
        again = build(unpacked, "wheel", Path(folder))
        with zipfile.ZipFile(again) as ours, zipfile.ZipFile(wheel) as theirs:
            differing = {*ours.namelist()} ^ {*theirs.namelist()}
    if differing:
        yield f"the wheel that it builds differs in {min(differing)}"
    if wheel.name.startswith("maze_core-") and not tested:
        yield "it has no tests"


def build_and_check() -> list[Path]:
    """Build all distributions; return the wheels. Ends with exit code 1 if one has a problem."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    wheels, found = [], []
    with tempfile.TemporaryDirectory() as copies:
        for folder in projects():
            copy = copied(folder, Path(copies) / folder.name)
            wheel, sdist = build(copy, "wheel", OUT), build(copy, "sdist", OUT)
            wheels.append(wheel)
            found += [f"{wheel.name}: {each}" for each in problems_of_wheel(wheel, folder)]
            found += [f"{sdist.name}: {each}" for each in problems_of_sdist(sdist, wheel)]
    if found:
        raise SystemExit("\n".join(found))
    files = map(str, sorted(OUT.iterdir()))
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"twine check failed:\n{done.stdout}{done.stderr}")
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
        for typed in TYPED:
            clean.maze(*typed, folder=clean.home)
    print(f"{len(listed)} plugins of the wheels are well; a run trains, is evaluated, exported and shown")


def main() -> None:
    """Build, check and try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-trial", action="store_true", help="only build and check")
    options = parser.parse_args()
    wheels = build_and_check()
    if not options.no_trial:
        trial(wheels)
        alone(wheels)


if __name__ == "__main__":
    main()
