"""Tries each distribution alone: installed with nothing but what it requires, it loads, and its shortest run works."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.maze_devkit.scaffold.clean import ROOT, CleanEnvironment, with_needs
from tests.repository import folder_of

_LEFT_OUT = frozenset({"maze_all", "maze_ray", "maze_rllib", "maze_wandb", "maze_mlflow"})
"""What needs packages of others that are not installed with `make setup`; and that which needs all."""
_TRAIN = "train {} --env {} --preset none --steps 300 --run-dir run --quiet"
_SMALL = " --set algorithm.initial_buffer_size=50 --set algorithm.batch_size=16 --set algorithm.epoch_length=4"
RUNS: Mapping[str, Sequence[str]] = {
    "maze_a2c": [_TRAIN.format("a2c", "CartPole-v1"), "eval run --episodes 1"],
    "maze_dqn": [_TRAIN.format("dqn", "CartPole-v1") + _SMALL, _TRAIN.format("pqn", "CartPole-v1")],
    "maze_es": [_TRAIN.format("es", "CartPole-v1") + " --set algorithm.n_rollouts_per_update=4"],
    "maze_impala": [_TRAIN.format("impala", "CartPole-v1"), _TRAIN.format("appo", "CartPole-v1")],
    "maze_ppo": [_TRAIN.format("ppo", "CartPole-v1"), "eval run --episodes 1", "resume run --set steps=4096 --quiet"],
    "maze_recordings": [
        "rollout --policy random --env CartPole-v1 --episodes 2 --record demos",
        "trajectories info demos",
    ],
    "maze_sac": [
        _TRAIN.format("sac", "Pendulum-v1") + _SMALL,
        "eval run --episodes 1",
        _TRAIN.format("flash_sac", "Pendulum-v1") + _SMALL,
    ],
    "maze_td3": [
        _TRAIN.format("td3", "Pendulum-v1") + _SMALL,
        _TRAIN.format("fast_td3", "Pendulum-v1") + _SMALL,
    ],
    "maze_trpo": [_TRAIN.format("trpo", "CartPole-v1"), _TRAIN.format("pg", "CartPole-v1")],
    "maze_zoo": ["zoo list", "eval zoo:ppo-CartPole-v1 --episodes 2", "eval zoo:ppo-gru-CartPole-v1 --episodes 2"],
    "maze_curricula": [],
    "maze_evolution": [_TRAIN.format("cma_es", "CartPole-v1")],
}
"""The shortest runs of distributions that train, as typed after `maze`; each in a folder of its own."""


def alone(wheels: Iterable[Path]) -> None:
    """Try all; ends with exit code 1 if one has a problem."""
    by_package = {wheel.name.partition("-")[0]: wheel for wheel in wheels}
    found = []
    for package in sorted(by_package.keys() - _LEFT_OUT):
        found += [f"{package}, alone: {problem}" for problem in _problems(package, by_package)]
    if found:
        raise SystemExit("\n".join(found))
    print(f"{len(by_package.keys() - _LEFT_OUT)} distributions work alone, with what they require")


def _problems(package: str, by_package: Mapping[str, Path]) -> list[str]:
    needed = {"maze_core", package, *(folder.name for folder in with_needs(folder_of(package)) if folder != ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        clean = CleanEnvironment(Path(folder) / "clean")
        clean.install(*(by_package[each] for each in needed))
        try:
            clean.run(clean.python, "-c", _IMPORTED, package)
            listed = json.loads(clean.maze("plugins", "list", "--json", folder=clean.home))
            for number, typed in enumerate(RUNS.get(package, ())):
                place = clean.home / (str(number) if typed.startswith("train") else "0")
                place.mkdir(exist_ok=True)
                clean.maze(*typed.split(), folder=place)
        except AssertionError as problem:
            return [str(problem)[-1500:]]
    return [f"{each['kind']} {each['name']}: {each['detail']}" for each in listed if each["state"] != "ok"]


_IMPORTED = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    if not module.name.endswith("conformance") and ".templates" not in module.name:
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if str(error.name).startswith("maze_") and error.name != "maze_devkit":
                raise
"""
"""Imports all modules of a package. They may lack packages of others, and the conformance kit, but no other one of
Maze's."""
