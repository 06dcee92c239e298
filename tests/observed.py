"""A run as observers see it, without any training."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.run import AlgorithmConfig, RunConfig
from maze_core.run.progress import RunState
from maze_core.run.report import EpochReport


class EnvConfig(PluginConfig):
    id: str = "CartPole-v1"


class FakeRun(SimpleNamespace):
    """The attributes of `Run` that observers use; what they ask for is kept in `stops` and `saved`."""

    def stop(self, reason: str) -> None:
        self.stops.append(reason)

    def save_checkpoint(self, name: str) -> Path:
        self.saved.append((name, self.epoch))
        return self.run_dir / "checkpoints" / name


def build_run(run_dir: Path | None, **changes: Any) -> FakeRun:
    steps, n_epochs = changes.pop("steps", 1000), changes.pop("n_epochs", 0)
    algorithm = AlgorithmConfig(name="ppo", n_epochs=n_epochs)
    config = RunConfig(
        env=EnvConfig(name="gymnasium"),
        model=PluginConfig(name="mlp"),
        algorithm=algorithm,
        runner=PluginConfig(name="dev"),
        callbacks={name: PluginConfig(name=name) for name in ("console", "tensorboard")},
        seed=7,
        steps=steps,
    )
    values: dict[str, Any] = {
        "config": config,
        "run_dir": run_dir,
        "interrupted": False,
        "epoch": 0,
        "env_steps": 0,
        "updates": 0,
        "seconds": 0.0,
        "best_score": None,
        "state": RunState(improved_epoch=changes.pop("improved_epoch", None)),
        "algorithm": SimpleNamespace(columns={f"loss/{name}": name for name in ("policy", "value", "entropy")}),
        "full_length": False,
        "total_env_steps": steps,
        "total_epochs": n_epochs or None,
        "resumed": False,
        "forked_from": None,
        "paused": False,
        "in_python": False,
        "explores": False,
        "notes": [],
        "progress": SimpleNamespace(env_steps=0, phase="training"),
        "epoch_length": algorithm.epoch_length,
        "versions": {"maze-core": "0.1.0"},
        "policy": SimpleNamespace(),
        "parameter_counts": {"policy": 4610, "critic": 4545},
        "preset": "CartPole-v1",
        "init_from": None,
        "finished": False,
        "stops": [],
        "saved": [],
        "saving": SimpleNamespace(has_progress=True),
    }
    return FakeRun(**{**values, **changes})


def build_epoch(number: int, is_best: bool = False, **metrics: float) -> EpochReport:
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return EpochReport(number, 100 * number, 25 * number, 0.5 * number, named, is_best)


@pytest.fixture
def make_run(tmp_path: Path) -> Any:
    """`make_run(**changes)`: a fake run in a fresh run directory."""
    return lambda **changes: build_run(changes.pop("run_dir", tmp_path), **changes)


@pytest.fixture
def make_epoch() -> Any:
    """`make_epoch(number, is_best, eval__return_mean=…)`: an epoch of 100 steps and 25 updates."""
    return build_epoch
