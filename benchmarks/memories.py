"""How fast memories learn sequences: forward and backward through a memory, several memories in turns.

    python benchmarks/memories.py                            256 steps: linear and gru, on one and two threads
    python benchmarks/memories.py --length 1024 --memories linear gru lstm

Each round times every memory once on the same rows, so that a slow moment of the machine meets all of them. The table
has the median of each memory, and the median over the rounds of how much faster the first is than the last.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch

from maze_core.data.sequences import Sequences
from maze_core.models.memory import Memory
from maze_core.models.memory_choice import build_memory


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", nargs="+", default=["linear", "gru"])
    parser.add_argument("--length", type=int, default=256, help="steps of a sequence")
    parser.add_argument("--sequences", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args(arguments)
    names = options.memories
    print(f"| threads | sequences | size | {' | '.join(f'{name}, ms' for name in names)} | {names[0]} is faster by |")
    print("|---" * (4 + len(names)) + "|")
    for threads in options.threads:
        # Numpy's library reads the number when it is loaded: each number has a process of its own.
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            for count in options.sequences:
                for size in options.sizes:
                    times = pool.submit(measured, names, options.length, count, size, options.rounds).result()
                    medians = [statistics.median(each) * 1e3 for each in times]
                    faster = statistics.median(last / first for first, last in zip(times[0], times[-1], strict=True))
                    cells = [str(threads), str(count), str(size), *(f"{each:.1f}" for each in medians)]
                    print(f"| {' | '.join([*cells, f'{faster:.1f}'])} |", flush=True)


def measured(names: Sequence[str], length: int, count: int, size: int, rounds: int) -> list[list[float]]:
    """Return the seconds of each memory in each round."""
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    memories = [build_memory(name, size, {"size": size}) for name in names]
    rows = torch.randn(count * length, size, requires_grad=True)
    sequences = Sequences(np.full(count, length), {})
    for memory in memories:
        seconds(memory, rows, sequences)
    found = [[seconds(memory, rows, sequences) for memory in memories] for _ in range(rounds)]
    return [list(each) for each in zip(*found, strict=True)]


def seconds(memory: Memory, rows: torch.Tensor, sequences: Sequences) -> float:
    """Return how long a forward and a backward pass take."""
    state = memory.initial_state(len(sequences))
    begun = time.perf_counter()
    memory.unroll(rows, sequences, state).square().mean().backward()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
