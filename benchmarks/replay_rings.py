"""Whether rows of replay are quicker kept in arrays of numpy or in tensors of torch, on a CPU.

    python benchmarks/replay_rings.py

A round writes one step of 128 environments and draws one batch. The first ring is Maze's `ReplayBuffer`; the second has
the same columns as tensors, and does with them what the first does. They take turns. The medians of many rounds count,
in time of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces
from maze_offpolicy import ReplayBuffer

from maze_core.envs.vector import StepResult

ENVS = 128


class TorchRing:
    """The columns of a `ReplayBuffer` as tensors: for steps that are neither cut nor summed."""

    def __init__(self, capacity: int, size: int, actions: int) -> None:
        self._obs, self._actions = torch.zeros(capacity, size), torch.zeros(capacity, actions)
        self._reward, self._terminated = torch.zeros(capacity), torch.zeros(capacity, dtype=torch.bool)
        self._ahead = torch.zeros(capacity, dtype=torch.int64)
        self._rows, self._capacity = ENVS, capacity

    def step(self, actions: torch.Tensor, reward: torch.Tensor, ended: torch.Tensor, obs: torch.Tensor) -> None:
        """Write one step, and the observations that follow."""
        rows = torch.arange(self._rows - ENVS, self._rows) % self._capacity
        self._actions[rows], self._reward[rows], self._terminated[rows], self._ahead[rows] = (
            actions,
            reward,
            ended,
            ENVS,
        )
        new = torch.arange(self._rows, self._rows + ENVS) % self._capacity
        self._obs[new], self._ahead[new] = obs, 0
        self._rows += ENVS

    def sample(self, chance: torch.Generator, count: int, gamma: float) -> tuple[torch.Tensor, ...]:
        """Return observations, actions, rewards, discounts and following observations of steps, as many as asked."""
        held = min(self._rows, self._capacity)
        found = torch.zeros(0, dtype=torch.int64)
        while len(found) < count:
            drawn = torch.randint(held, (count,), generator=chance)
            found = torch.cat((found, drawn[self._ahead.index_select(0, drawn) > 0]))
        rows = found[:count]
        following = (rows + self._ahead.index_select(0, rows)) % self._capacity
        return (
            self._obs.index_select(0, rows),
            self._actions.index_select(0, rows),
            self._reward.index_select(0, rows),
            gamma * ~self._terminated.index_select(0, rows),
            self._obs.index_select(0, following),
        )


def compare(size: int, actions: int, batch: int, capacity: int, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of a round, median of many: numpy's and torch's."""
    rng, chance = np.random.default_rng(0), torch.Generator().manual_seed(0)
    box = spaces.Box(-1, 1, (actions,), np.float32)
    ours = ReplayBuffer(spaces.Box(-9, 9, (size,), np.float32), box, capacity)
    theirs = TorchRing(capacity, size, actions)
    obs = rng.normal(size=(ENVS, size)).astype(np.float32)
    acted, reward = rng.normal(size=(ENVS, actions)).astype(np.float32), rng.normal(size=ENVS).astype(np.float32)
    flags = np.zeros(ENVS, bool)
    result = StepResult(reward, flags, flags, ~flags, np.zeros(0, np.int64))
    tensors = [torch.from_numpy(each) for each in (acted, reward, flags, obs)]
    ours.begin({"observation": obs})

    def with_numpy() -> None:
        ours.step({"action": acted}, result, {"observation": obs})
        ours.sample(rng, batch, 0.99)

    def with_torch() -> None:
        theirs.step(*tensors)
        theirs.sample(chance, batch, 0.99)

    for _ in range(capacity // ENVS):
        ours.step({"action": acted}, result, {"observation": obs})
        theirs.step(*tensors)
    times: dict[Callable[[], None], list[float]] = {with_numpy: [], with_torch: []}
    for _ in range(rounds):
        for each, taken in times.items():
            begun = time.process_time()
            each()
            taken.append(time.process_time() - begun)
    first, second = (1000 * statistics.median(taken) for taken in times.values())
    return first, second


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--capacity", type=int, default=500_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| observation | batch | numpy, ms | torch, ms | torch / numpy |\n|---:|---:|---:|---:|---:|")
    for size, actions in ((4, 1), (27, 8), (100, 20)):
        for batch in (1024, 2048, 4096, 8192):
            first, second = compare(size, actions, batch, asked.capacity, asked.rounds)
            print(f"| {size} | {batch:,} | {first:.3f} | {second:.3f} | {second / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
