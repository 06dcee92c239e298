"""Tries all distributions with the lowest versions of other packages that their bounds allow, or with the newest.

    python tools/versions.py lowest
    python tools/versions.py newest --python python3.12 --extras clusters,loggers

It builds the distributions, installs them from their files into an environment of its own (build/lowest, build/newest),
types what a newcomer types, takes two updates of every algorithm, serves a policy, and runs a part of the tests of the
core's source distribution.

Lowest are the direct dependencies alone; what those need is the newest that fits. torch is the version of
constraints.txt unless --torch names another: its older and newer builds on the package index bring gigabytes of CUDA.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools.dist import OUT, TYPED, build_and_check, projects  # noqa: E402 — from the folder above

FOR_PEOPLE = ("dev", "site")
"""Extras of which no bound is tried: what the work on the repository needs."""
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "jsonschema", "mpe2")
"""What the tests need, in the newest versions that fit."""
SUITE = (
    *("envs/test_serial.py", "envs/test_spaces.py"),
    *("maze_foreign_envs/test_native.py", "maze_foreign_envs/test_interfaces.py"),
    *("maze_wrappers/test_of_others.py", "envs/test_masks.py", "envs/test_info_columns.py"),
    *("plugins/test_discovery.py", "plugins/test_catalog.py", "plugins/test_configuration.py"),
    *("plugins/test_manager.py", "plugins/test_broken_plugins.py", "config/test_flags.py", "config/test_peers.py"),
    *("cli/test_errors.py", "cli/test_cli.py", "models/test_models.py", "models/test_policy.py"),
    *("data", "maze_onpolicy", "maze_offpolicy", "maze_local/test_processes.py"),
    *("training/test_checkpoint.py", "training/test_resume.py", "maze_onpolicy/test_on_policy.py"),
    *("maze_wrappers/test_spaces.py", "maze_wrappers/test_actors.py", "maze_export/test_export.py"),
    *("maze_export/test_onnx_policy.py", "maze_serve", "maze_view/test_view.py", "maze_tensorboard", "maze_optuna"),
    *("maze_pettingzoo/test_source.py", "maze_minari", "maze_compare/test_curves.py", "maze_mirror/test_address.py"),
)
"""The part of the tests that is run: it needs nothing of the repository but the tests."""
_TWO_UPDATES = """
from contextlib import closing

from maze_core.plugins import discovery
from maze_devkit.bench import Bench
from maze_devkit.kit import checks, examine_all, find

trains = [check for check in checks("algorithm") if check.name == "trains"]
names, failed = discovery.names("algorithm"), []
with closing(Bench()) as bench:
    for name in names:
        failed += [f for f in examine_all(trains, find("algorithm", name), bench) if f.state != "passed"]
if failed:
    raise SystemExit("\\n".join(map(str, failed)))
print(f"{len(names)} algorithms train")
"""


def dependencies() -> Iterable[Requirement]:
    """Yield what the distributions need of others, also for the extras that users ask for."""
    for folder in projects():
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = project.get("optional-dependencies", {})
        lines = [*project["dependencies"], *(each for key in extras if key not in FOR_PEOPLE for each in extras[key])]
        yield from (each for each in map(Requirement, lines) if not each.name.startswith("maze-"))


def lower_bounds(requirements: Iterable[Requirement]) -> dict[str, Version]:
    """Return the lowest version that all bounds allow, by package; a package without a lower bound is left out."""
    found: dict[str, Version] = {}
    for each in requirements:
        name = canonicalize_name(each.name)
        for bound in each.specifier:
            if bound.operator in (">=", "=="):
                found[name] = max(found.get(name, Version("0")), Version(bound.version))
    return found


def pinned() -> dict[str, str]:
    """Return the versions of constraints.txt, by package."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)}


def constraints(versions: str, torch: str | None) -> list[str]:
    """Return the lines of a constraints file for the `lowest` or the `newest` versions."""
    known = pinned()
    found = {"torch": torch or known["torch"]}
    if versions == "lowest":
        found = {**{name: str(version) for name, version in lower_bounds(dependencies()).items()}, **found}
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def files_of_all(extras: Sequence[str]) -> list[str]:
    """Return what pip installs for maze-all with extras: the files of it and of the distributions that it needs."""
    project = tomllib.loads((ROOT / "tools" / "maze_all" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(each for key in extras for each in project["optional-dependencies"][key])]
    asked: dict[str, set[str]] = {"maze-all": set(extras)}
    for each in map(Requirement, lines):
        asked.setdefault(each.name, set()).update(each.extras)
    files = {each.name.partition("-")[0].replace("_", "-"): each for each in OUT.glob("*.whl")}
    return [f"{files[name]}[{','.join(sorted(more))}]" if more else str(files[name]) for name, more in asked.items()]


class Trial:
    """An environment of its own, and what is tried in it.

    Args:
        folder: of the environment; what is there is removed.
        python: the interpreter.
    """

    def __init__(self, folder: Path, python: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.home = folder / "home"
        subprocess.run([python, "-m", "venv", folder], check=True)
        self.home.mkdir()
        self._bin = folder / "bin"

    def run(self, *command: str | Path, folder: Path | None = None) -> str:
        """Run a program of the environment; return what it printed. Ends with exit code 1 where it fails."""
        variables = {"PATH": f"{self._bin}{os.pathsep}{os.defpath}", "HOME": str(self.home), "OMP_NUM_THREADS": "1"}
        kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "http", "HTTP"))}
        done = subprocess.run(
            [str(self._bin / command[0]), *map(str, command[1:])],
            cwd=folder or self.home,
            env=variables | kept,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))[:200]} failed:\n{done.stdout[-6000:]}")
        return done.stdout

    def install(self, lines: Sequence[str], extras: str) -> None:
        """Install all distributions from their files, and the tools of the tests, within constraints."""
        file = self.home / "constraints.txt"
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        pip = ("python", "-m", "pip", "install", "--quiet", "--constraint", file)
        self.run(*pip, "torch")
        # By their files: an index may have anybody's distribution of the same name.
        self.run(*pip, *files_of_all(extras.split(",") if extras else []), *TOOLS)
        print(self.run("python", "-m", "pip", "check").strip())

    def type_commands(self) -> None:
        """Type what a newcomer types; a plugin that is broken is an error."""
        listed = json.loads(self.run("maze", "plugins", "list", "--json"))
        if broken := [f"{each['kind']} {each['name']}: {each['detail']}" for each in listed if each["state"] != "ok"]:
            raise SystemExit("\n".join(broken))
        for typed in TYPED:
            self.run("maze", *typed)
        print(f"{len(listed)} plugins are well; a run trains, is evaluated, exported and shown")

    def serve(self) -> None:
        """Let `maze serve` answer an observation."""
        command = [self._bin / "maze", "serve", "run", "--port", "0"]
        server = subprocess.Popen(command, cwd=self.home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert server.stdout is not None
        try:
            told = []
            while not (found := re.search(r"http://127\.0\.0\.1:\d+", told[-1] if told else "")):
                told.append(server.stdout.readline())
                if not told[-1]:
                    raise SystemExit("maze serve ended:\n" + "".join(told))
            body = json.dumps({"observation": [0.0, 0.0, 0.0, 0.0]}).encode()
            request = urllib.request.Request(f"{found[0]}/act", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                print(f"a served policy answers {answer.read().decode().strip()}")
        finally:
            server.terminate()
            server.wait()

    def test(self, sdist: Path) -> None:
        """Run the tests of the core's source distribution, against what is installed."""
        folder = self.home / "suite"
        with tarfile.open(sdist) as archive:
            wanted = [each for each in archive if re.match(r"[^/]+/(tests/|pyproject\.toml$)", each.name)]
            archive.extractall(folder, wanted, filter="data")
        (unpacked,) = folder.iterdir()
        options = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-n", str(min(4, os.cpu_count() or 1)))
        printed = self.run("python", "-m", "pytest", *options, *(f"tests/{each}" for each in SUITE), folder=unpacked)
        print(printed.strip().splitlines()[-1])


def main() -> None:
    """Build, install and try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=["lowest", "newest"])
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment")
    parser.add_argument("--torch", help="the version of torch; by default that of constraints.txt")
    parser.add_argument("--extras", default="", help="of maze-all, with commas between them")
    parser.add_argument("--built", action="store_true", help="take what is in dist/")
    options = parser.parse_args()
    if not options.built:
        build_and_check()
    trial = Trial(ROOT / "build" / options.versions, options.python)
    trial.install(constraints(options.versions, options.torch), options.extras)
    trial.type_commands()
    print(trial.run("python", "-c", _TWO_UPDATES).strip().splitlines()[-1])
    trial.serve()
    trial.test(next(OUT.glob("maze_core-*.tar.gz")))


if __name__ == "__main__":
    main()
