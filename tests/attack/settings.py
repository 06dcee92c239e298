"""Settings of other libraries in the current folder, which came with somebody's run: none may be read there.

The folder is full of them at once: of wandb, git, MLflow, matplotlib, ray, numba, fsspec, pip, and programs with the
names of those that libraries start. What one of them made happen would be seen beside the folder.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from tests.attack.oracle import problems_of
from tests.attack.runs import ENV, RUN, plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import COMMANDS, World

PROGRAM = "#!/bin/sh\ntouch {outside}/$(basename $0)\n"
GIT = """[core]
    fsmonitor = touch {outside}/git
    pager = touch {outside}/git
    hooksPath = hooks
"""
WANDB = """[default]
x_sync_dir_suffix = /../../../../outside/wandb
x_files_dir = {outside}/wandb
base_url = http://10.0.0.1
"""
FILES = {
    ".git/config": GIT,
    ".git/HEAD": "ref: refs/heads/main\n",
    ".gitconfig": GIT,
    ".netrc": "machine api.wandb.ai login user password 0123456789012345678901234567890123456789\n",
    ".env": "WANDB_DIR={outside}\nMLFLOW_TRACKING_URI={outside}\nRAY_ADDRESS=10.0.0.1:6379\n",
    ".numba_config.yaml": "cache_dir: {outside}/numba\ndebug: 1\n",
    ".config/fsspec/conf.json": '{{"file": {{"auto_mkdir": true}}}}',
    ".config/wandb/settings": WANDB,
    ".optuna.db": "x",
    ".ray/auth_token": "x",
    "fsspec.json": "{{}}",
    "ray.yaml": "head_node: {{}}\n",
    "mlflow.db": "x",
    "mlruns/0/meta.yaml": "artifact_location: {outside}\nexperiment_id: '0'\nlifecycle_stage: active\nname: maze\n",
    "MLproject": "entry_points: {{main: {{command: touch {outside}/mlflow}}}}\n",
    "pip.conf": "[global]\nindex-url = http://10.0.0.1\n",
    "pyproject.toml": "[tool.maze]\nx = 1\n",
    "setup.cfg": "[options]\n",
    "pytest.ini": "[pytest]\n",
    "tox.ini": "[tox]\n",
    "pyvenv.cfg": "home = {outside}\n",
    "torch_compile_debug/run": "x",
}
"""What is read by nothing, or must not be."""
PROGRAMS = ("git", "ffmpeg", "g++", "gcc", "uname", "latex", "fc-list", "hooks/post-index-change", "nvidia-smi")
REFUSED = {
    "wandb/settings": WANDB,
    ".wandb/settings": WANDB,
    "config-defaults.yaml": "x: &a [*a]\n",
    "matplotlibrc": "text.usetex: True\nbackend: module://theirs\n",
}
"""What a library would read unasked: what needs the library is refused."""
_TRAIN = [
    "train",
    "ppo",
    "--env",
    ENV,
    "--preset",
    "none",
    "--steps",
    64,
    "--run-dir",
    "new",
    "--set",
    "model.hidden=[4]",
]
_TRAIN += ["--set", "algorithm.n_rollout_steps=16", "--set", "evaluation.n_episodes=1"]
_WITH: dict[str, list[object]] = {
    **{name: COMMANDS[name] for name in ("eval", "rollout", "resume", "list", "compare")},
    "train": _TRAIN,
    "train with wandb": [*_TRAIN, "--set", "callbacks.wandb={}"],
    "train with mlflow": [*_TRAIN, "--set", "callbacks.mlflow={}"],
    "train with workers": [*_TRAIN, "--runner", "local"],
    "plot": ["runs", "plot", RUN, "--out", "curves.png"],
    "export": ["export", RUN, "--format", "onnx", "--out", "policy.onnx"],
    "view": ["view", RUN, "--episodes", 1, "--out", "view.html"],
}
NEEDS = {"train with wandb": ("wandb/settings", ".wandb/settings", "config-defaults.yaml"), "plot": ("matplotlibrc",)}


def as_text(path: Path, text: str, outside: Path) -> None:
    path.write_text(text.format(outside=outside) if "{outside}" in text or "{{" in text else text)


def as_pipe(path: Path, text: str, outside: Path) -> None:
    """Who opens it waits for ever."""
    os.mkfifo(path)


def as_link(path: Path, text: str, outside: Path) -> None:
    """Who writes to it changes what is outside."""
    path.symlink_to(outside / "file")


KINDS: dict[str, Callable[[Path, str, Path], None]] = {"files": as_text, "pipes": as_pipe, "links": as_link}


def names_a_victim(journal: bytes, victim: Path) -> bytes:
    """A journal of SQLite, followed by the name of another file as that of a journal of several databases."""
    name = str(victim).encode()
    page = 2**30 // struct.unpack(">I", journal[24:28])[0] + 1
    magic = bytes.fromhex("d9d505f920a163d7")
    return journal + struct.pack(">I", page) + name + struct.pack(">II", len(name), sum(name)) + magic


class Settings:
    """Cases: a command, in a folder in which all of these are files, pipes or links."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._world = World(plan_of(subject), scratch)
        self._cases = [f"{command}, {kind}" for command in _WITH for kind in KINDS]

    def names(self, count: int) -> list[str]:
        """All, or the first so many."""
        return self._cases[:count]

    def try_(self, name: str) -> Verdict:
        """Fill the folder, run the command in a process of its own, look around."""
        command, kind = name.split(", ")
        verdict = Verdict(f"settings/ppo/{name}", "settings of other libraries", name)
        world = self._world
        world.begin()
        for place, text in (FILES | REFUSED).items():
            path = world.folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            KINDS[kind](path, text, world.outside)
        for place in PROGRAMS:
            path = world.folder / place
            path.parent.mkdir(exist_ok=True)
            path.write_text(PROGRAM.format(outside=world.outside))
            path.chmod(0o755)
        ending = world.run(_WITH[command], afresh=True)
        refused = command in NEEDS
        verdict.problems = problems_of(ending, (2,) if refused else (0,)) + world.changes_outside()
        if refused and not any(f"settings from {each} of the current folder" in ending.err for each in NEEDS[command]):
            verdict.problems.append(f"says something else: {ending.err[-300:]}")
        shutil.rmtree(world.folder, ignore_errors=True)
        return verdict
