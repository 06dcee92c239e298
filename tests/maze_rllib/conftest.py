"""What the tests of the bridge share: one Ray for all of them, and small runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from maze_core.run.context import RunContext

if not (find_spec("ray") and find_spec("maze_rllib")):
    collect_ignore_glob = ["test_*.py"]

SMALL: dict[str, dict[str, Any]] = {
    "rllib-ppo": {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 2},
    "rllib-appo": {"train_batch_size_per_learner": 100, "rollout_fragment_length": 10, "epoch_length": 2},
    "rllib-impala": {"train_batch_size_per_learner": 100, "rollout_fragment_length": 10, "epoch_length": 2},
    "rllib-dqn": {
        "train_batch_size_per_learner": 8,
        "num_steps_sampled_before_learning_starts": 20,
        "epoch_length": 1,
        "min_sample_timesteps_per_iteration": 40,
    },
    "rllib-sac": {
        "train_batch_size_per_learner": 8,
        "num_steps_sampled_before_learning_starts": 20,
        "epoch_length": 1,
        "critic_hidden": [16],
        "min_sample_timesteps_per_iteration": 40,
        "min_time_s_per_iteration": 0,
        "replay_buffer_config.capacity": 4096,
    },
    "rllib-tqc": {
        "train_batch_size_per_learner": 8,
        "num_steps_sampled_before_learning_starts": 20,
        "min_sample_timesteps_per_iteration": 40,
        "min_time_s_per_iteration": 0,
        "replay_buffer_config.capacity": 4096,
    },
    "rllib-dreamerv3": {
        "model_size": "nano",
        "batch_size_B": 2,
        "batch_length_T": 8,
        "horizon_H": 3,
        "training_ratio": 8,
    },
    "rllib-cql": {"train_batch_size_per_learner": 64, "bc_iters": 1},
    "rllib-iql": {"train_batch_size_per_learner": 64},
    "rllib-bc": {"train_batch_size_per_learner": 64, "epoch_length": 2},
    "rllib-marwil": {"train_batch_size_per_learner": 64, "epoch_length": 2},
}
"""Parameters with which an epoch of each algorithm takes less than a second."""


@pytest.fixture(scope="package")
def ray_session() -> Iterator[None]:
    """Ends with the folder, for other tests of the same process start a Ray of their own."""
    from maze_rllib.session import RaySession, check_installed

    check_installed()
    session = RaySession(num_cpus=4)
    yield
    session.close()


@contextmanager
def making(folder: Path) -> Iterator[Any]:
    """Makes contexts of tiny runs; all are closed at the end."""
    with ExitStack() as stack:
        numbers = count()

        def make(algorithm: str, env: Any, overrides: dict[str, Any] | None = None, **options: Any) -> RunContext:
            values = {f"algorithm.{name}": value for name, value in SMALL[algorithm].items()}
            values |= {"evaluation.n_episodes": 2, "callbacks.tensorboard": None, "algorithm.n_epochs": 1}
            options = {"seed": 1, "run_dir": folder / f"run{next(numbers)}", **options}
            context = RunContext(
                env=env, algorithm=algorithm, overrides=values | (overrides or {}), silent=True, **options
            )
            return stack.enter_context(context)

        yield make


@pytest.fixture
def small(ray_session: None, tmp_path: Path) -> Iterator[Any]:
    """Makes contexts of tiny runs on the one Ray."""
    with making(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def learned(ray_session: None, tmp_path_factory: Any) -> Iterator[RunContext]:
    """PPO of RLlib after its first epoch, for tests that do not train it further."""
    with making(tmp_path_factory.mktemp("learned")) as make:
        context = make("rllib-ppo", "CartPole-v1")
        context.train()
        yield context
