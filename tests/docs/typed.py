"""Run one command or program of a page in a process of its own; `test_snippets` gives what `given` holds as JSON.

The process was forked from a server that has imported torch already: what takes seconds is done once.
"""

import gc
import json
import os
import runpy
import site
import sys
import tempfile
import tomllib
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path

from maze_ppo.config import PPOConfig

from maze_core.plugins import discovery, probe
from maze_core.plugins.config.run import AlgorithmConfig
from tests.forked import stand_by


def install(folders: list[str], editable: bool) -> None:
    """What pip does where it may not look for dependencies: most of its time goes into starting interpreters."""
    target, here = Path(os.environ["PIP_TARGET"]), Path.cwd()
    for folder in folders:
        os.chdir(here / folder.partition("[")[0])
        said = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8")).get("build-system", {})
        backend = import_module(said.get("build-backend", "setuptools.build_meta"))
        build = getattr(backend, "build_editable" if editable else "build_wheel")
        with tempfile.TemporaryDirectory() as built, zipfile.ZipFile(Path(built) / build(built)) as wheel:
            wheel.extractall(target)


WITHOUT_WORKERS = ("config", "fetch", "init", "publish", "runs", "trajectories", "zoo")
"""Commands that start none."""


def train_less() -> None:
    """Where a page does not say, evaluate two episodes instead of eight, and let PPO pass over data twice instead of
    ten times: half of what trainings take that are this short. The rest is the start, where plugins are looked up.
    """
    AlgorithmConfig.evaluation_episodes = property(lambda config: 2)
    PPOConfig.model_fields["n_optimization_epochs"].default = 2
    PPOConfig.model_rebuild(force=True)
    discovery.declarations = cache(discovery.declarations)
    discovery.incompatibility = cache(discovery.incompatibility)
    probe._ask = ask_a_copy


def film_less() -> None:
    """Eight pictures of an episode, small ones: to encode hundreds takes seconds."""
    from maze_view import pictures

    begin = pictures.Film.__init__
    pictures._SIDE = 32
    pictures.Film.__init__ = lambda film, most: begin(film, min(most, 8))


def ask_a_copy(wanted: list[list[str]], timeout: float) -> tuple[list[tuple[str, str]], str]:
    """Try imports in a copy of this process, which has most of them, instead of a new one: that takes five seconds."""
    answers, written = os.pipe()
    if (pid := os.fork()) == 0:
        os.dup2(written, 1)
        probe.answer(wanted)
        os._exit(0)
    os.close(written)
    with os.fdopen(answers) as lines:
        told = [json.loads(line) for line in lines]
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return [(state, detail) for state, detail in told], f"importing it ended the process with exit code {code}"


given = json.loads(sys.argv[1])
folder: str = given["folder"]
changes: dict[str, str] = given["changes"]
argv: list[str] = given["argv"]

gc.freeze()  # to search what the server has imported for garbage would copy it
os.setsid()
os.chdir(folder)
os.environ.update(changes)
output = os.open(given["log"], os.O_WRONLY | os.O_APPEND)
os.dup2(output, 1)
os.dup2(output, 2)
sys.path[:] = [changes["PYTHONPATH"], *(each or given["root"] for each in sys.path)]  # none is the current folder
site.addsitedir(changes["PYTHONPATH"])
if argv[0] == "cd":
    os.chdir(argv[1])
    argv = argv[3:]
if "=" in argv[0]:
    name, _, value = argv.pop(0).partition("=")
    os.environ[name] = value
if argv[0] == "python":
    argv = argv[1:]
if argv[0] == "-m":
    argv = argv[1:]
if argv[-2:-1] == [">"]:
    os.dup2(os.open(argv[-1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    argv = argv[:-2]
sys.argv = argv
train_less()
if argv[:2] == ["maze", "view"]:
    film_less()
if argv[0].endswith((".py", "pytest")) or (argv[0] == "maze" and argv[1] not in WITHOUT_WORKERS):
    stand_by()
if argv[0] == "maze":
    from maze_core.cli.main import main

    main()
elif argv[0] == "pytest":
    import pytest

    sys.exit(pytest.main(argv[1:]))
elif argv[:2] == ["pip", "install"]:
    assert set(argv[2:]) & {"-e", "--no-deps"} == {each for each in argv[2:] if each.startswith("-")}
    install([each for each in argv[2:] if not each.startswith("-")], editable="-e" in argv)
elif argv[0].endswith(".py"):
    sys.path.insert(0, folder)
    runpy.run_path(argv[0], run_name="__main__")
else:
    os.execvp(argv[0], argv)
