"""The Python API: runs side by side, and a process that is left as it was."""

import asyncio
import os
import random
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from maze_core.errors import RunError
from maze_core.testing.envs import SeededWalk
from maze_core.testing.probes import Workshop
from tests.context.parts import Encoder


def test_two_contexts_in_turn_do_not_disturb_each_other(quick, whole_state, assert_same):
    """Contract 8: bit-equal to runs that are alone."""

    class Noisy(Encoder):
        def forward(self, obs):
            return super().forward(obs) + 0.1 * torch.rand(())  # draws from torch's global generator

    parts = ((SeededWalk, "ppo", Noisy), (Workshop, "a2c", "template"))
    together = [quick(env, algorithm, model=model) for env, algorithm, model in parts]
    for _ in range(2):
        for context in together:
            context.train(1)
            context.evaluate(deterministic=False)
    for (env, algorithm, model), context in zip(parts, together, strict=True):
        alone = quick(env, algorithm, model=model)
        alone.train()
        assert_same(whole_state(context.run_dir), whole_state(alone.run_dir))


def test_two_contexts_in_threads(quick, whole_state, assert_same):
    """Signals are left to the main thread; runs in two threads end as if alone."""
    contexts = [quick(SeededWalk, "ppo", {"threads": 0}, seed=seed) for seed in (1, 2)]
    for context in contexts:
        _ = context.run
    threads = [threading.Thread(target=context.train) for context in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, context in zip((1, 2), contexts, strict=True):
        alone = quick(SeededWalk, "ppo", {"threads": 0}, seed=seed)
        alone.train()
        # Torch's global generator is one for the process: only models that draw from it notice.
        mine, theirs = whole_state(context.run_dir), whole_state(alone.run_dir)
        mine.pop("torch_rng"), theirs.pop("torch_rng")
        assert_same(mine, theirs)


def test_it_runs_inside_an_event_loop(quick):
    """As in a notebook, whose cells run in one."""

    async def cell():
        return quick(SeededWalk).train().epochs

    assert asyncio.run(cell()) == 2


def process_state():
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "threads": torch.get_num_threads(),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "directory": Path.cwd(),
        "environment": dict(os.environ),
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "running threads": threading.active_count(),
    }


def test_the_process_is_left_as_it_was(quick):
    """Contract 8: random states, threads, signal handlers, directory and environment; also after a failure."""

    class Failing(SeededWalk):
        broken = False

        def step(self, action):
            if Failing.broken:
                raise ZeroDivisionError
            return super().step(action)

    def own_handler(*_):
        pass

    earlier, threads = signal.signal(signal.SIGTERM, own_handler), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        before = process_state()
        context = quick(Failing, model=Encoder, overrides={"threads": 1})
        context.train(1)
        context.evaluate()
        context.compute_action(np.zeros(2))
        Failing.broken = True
        with pytest.raises(RunError):
            context.train(1)
        with pytest.raises(RunError):
            context.evaluate()
        context.close()
        after = process_state()
        assert [name for name in before if before[name] != after[name]] == []
    finally:
        signal.signal(signal.SIGTERM, earlier)
        torch.set_num_threads(threads)
