"""Digests of short runs: what every algorithm learns from and what it learns, to compare two states of the code.

    python benchmarks/golden.py --write before.json                  run all and write their digests
    python benchmarks/golden.py --against before.json                run all again and name what differs
    python benchmarks/golden.py --only ppo --write before.json       those whose name contains `ppo`

A run is named ALGORITHM/RUNNER/MEMORY/AGENTS. Its digests cover the parameters after the run, the metrics without
times, and every leaf of every batch that the loss was computed from. A combination that is refused has the text of its
refusal. Digests depend on the processor and the libraries, so both files must come from one machine.

In `sets` the rows of all batches count whatever their order: if only other digests differ, the same rows arrived in
another order.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from maze_core import Batch, Loss, MazeError, Plugin, PluginConfig, Policy, Run, RunContext, RunSummary, hookimpl

Digests = dict[str, str]

_ROLLOUTS = {"algorithm.num_envs": 2, "algorithm.n_rollout_steps": 16, "algorithm.epoch_length": 4}
_REPLAY = {"algorithm.num_envs": 2, "algorithm.initial_buffer_size": 64, "algorithm.sequence_length": 8}
ALGORITHMS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {**_ROLLOUTS, "algorithm.batch_size": 16, "algorithm.n_optimization_epochs": 2},
    "a2c": _ROLLOUTS,
    "pg": _ROLLOUTS,
    "trpo": {**_ROLLOUTS, "algorithm.batch_size": 16, "algorithm.n_critic_epochs": 2},
    "impala": {"algorithm.num_actors": 2, "algorithm.epoch_length": 10},
    "appo": {"algorithm.num_actors": 2, "algorithm.epoch_length": 10},
    "pqn": {**_ROLLOUTS, "algorithm.batch_size": 16, "algorithm.n_optimization_epochs": 2},
    "sac": {**_REPLAY, "algorithm.batch_size": 32, "algorithm.epoch_length": 100},
    "td3": {**_REPLAY, "algorithm.batch_size": 32, "algorithm.epoch_length": 100},
    "dqn": {**_REPLAY, "algorithm.batch_size": 32, "algorithm.epoch_length": 50},
    "es": {"algorithm.n_rollouts_per_update": 4, "algorithm.epoch_length": 2},
    "cma_es": {"algorithm.population_size": 4, "algorithm.epoch_length": 2},
}
RUNNERS = ("dev", "local")
MEMORIES = ("none", "gru")
ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "one": {"name": "gymnasium"},
    "several": {"name": "pettingzoo", "id": "mpe2:simple_spread_v3"},
    "turns": {"name": "pettingzoo", "id": "pettingzoo.classic:tictactoe_v3"},
}
CONTINUOUS = ("td3",)
STEPS = 300
_FILE = "digests.json"


class Digest(Plugin):
    """Adds every batch that a loss is computed from to the digests of its leaves."""

    Config = PluginConfig

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.leaves: dict[str, Any] = {}
        self.rows: dict[str, int] = {}

    @hookimpl(wrapper=True)
    def compute_loss(self, policy: Policy, batch: Batch) -> Iterator[None]:
        """Add the leaves of the batch."""
        parts = {"obs": batch.obs, "actions": batch.actions, "next_obs": batch.next_obs, "extra": batch.extra}
        if batch.sequences is not None:
            parts["state"] = batch.sequences.state
        for part, tree in parts.items():
            for name, leaf in tree.items():
                self._add(f"{part}/{name}", leaf)
        loss: Loss = yield  # type: ignore[misc]
        return loss  # type: ignore[return-value]

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Write the digests into the run directory."""
        found = {f"batches/{key}": leaf.hexdigest()[:16] for key, leaf in sorted(self.leaves.items())}
        found |= {f"sets/{key}": f"{total:016x}" for key, total in sorted(self.rows.items())}
        (run.run_dir or Path()).joinpath(_FILE).write_text(json.dumps(found))

    def _add(self, name: str, leaf: Tensor) -> None:
        array = np.ascontiguousarray(leaf.detach().cpu().numpy())
        self.leaves.setdefault(name, hashlib.sha256()).update(array.tobytes())
        rows = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in array)
        total = sum(int.from_bytes(row, "little") for row in rows)
        self.rows[name] = (self.rows.get(name, 0) + total) % 2**64


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, then write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="runs whose name contains this")
    parser.add_argument("--write", type=Path, help="the file to write")
    parser.add_argument("--against", type=Path, help="the file to compare with")
    options = parser.parse_args(arguments)
    chosen = [name for name in names() if options.only in name]
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = dict(zip(chosen, pool.map(digests, chosen), strict=True))
    if options.write:
        options.write.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    trained = sum("parameters" in each for each in found.values())
    print(f"{len(found)} runs: {trained} trained, {len(found) - trained} refused")
    if options.against:
        differing = differences(json.loads(options.against.read_text()), found)
        print("\n".join(differing) or "all digests are equal")
        sys.exit(bool(differing))


def names() -> list[str]:
    """Return the names of all runs."""
    return ["/".join(each) for each in itertools.product(ALGORITHMS, RUNNERS, MEMORIES, ENVIRONMENTS)]


def digests(name: str) -> Digests:
    """Return the digests of one run, or its refusal."""
    algorithm, runner, memory, agents = name.split("/")
    env = dict(ENVIRONMENTS[agents])
    if agents == "one":
        env["id"] = "Pendulum-v1" if algorithm in CONTINUOUS else "CartPole-v1"
    if agents == "several" and algorithm in CONTINUOUS:
        env["kwargs"] = {"continuous_actions": True}
    settings = {"model.memory": memory, "evaluation.n_episodes": 2, **ALGORITHMS[algorithm]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            return _trained(folder, algorithm, env, runner, settings)
        except MazeError as error:
            return {"refused": str(error).partition("\n")[0]}
        except Exception as error:  # noqa: BLE001 — a failure is a digest too
            return {"failed": f"{type(error).__name__}: {error}".partition("\n")[0]}


def _trained(folder: str, algorithm: str, env: Any, runner: str, settings: Mapping[str, Any]) -> Digests:
    with RunContext(
        env=env,
        algorithm=algorithm,
        runner=runner,
        callbacks={"digest": Digest},
        preset="none",
        overrides=settings,
        seed=1,
        steps=STEPS,
        run_dir=Path(folder) / "run",
        silent=True,
    ) as context:
        context.train()
        found: Digests = json.loads((context.run_dir / _FILE).read_text())
        found["parameters"] = _of_arrays(leaf.detach().cpu().numpy() for leaf in context.policy.state_dict().values())
        found["metrics"] = _of_metrics(context.run_dir / "metrics.jsonl")
    return found


def _of_arrays(arrays: Iterator[np.ndarray]) -> str:
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def _of_metrics(path: Path) -> str:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if not key.startswith(("time", "seconds"))} for line in lines]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def differences(before: Mapping[str, Digests], after: Mapping[str, Digests]) -> list[str]:
    """Return a line for each run that differs: the digests that are not equal, and those that one side lacks."""
    found = []
    for name, now in after.items():
        then = before.get(name, {})
        unequal = sorted(key for key in then.keys() | now.keys() if then.get(key) != now.get(key))
        if unequal:
            found.append(f"{name}: {', '.join(unequal)}")
    return found


if __name__ == "__main__":
    main()
