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
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Workshop

from maze_core.base.errors import ConfigError, RunError
from maze_core.run.context import RunContext
from tests.context.parts import Encoder


def test_two_contexts_in_turn_do_not_disturb_each_other(quick, whole_state, assert_same):
    """Bit-equal to runs that are alone."""

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


def in_thread(work):
    """Start `work` in a thread; returns what waits for its result, or raises what it raised."""
    results = []

    def run():
        try:
            results.append((work(), None))
        except Exception as error:  # noqa: BLE001 — raised again where it is waited for
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()

    def wait():
        thread.join(60)
        ((result, error),) = results
        if error is not None:
            raise error
        return result

    return wait


def test_contexts_built_and_evaluated_in_threads_are_as_if_alone(quick, whole_state, assert_same):
    """What one borrows from the process, others wait for."""

    def build(seed):
        context = quick(SeededWalk, "ppo", seed=seed)
        return context, context.evaluate(deterministic=False)["eval/return_mean"]

    waits = [in_thread(lambda seed=seed: build(seed)) for seed in range(6)]
    for seed, (context, score) in enumerate(wait() for wait in waits):
        alone, alone_score = build(seed)
        assert score == alone_score
        assert_same(whole_state(context.run_dir), whole_state(alone.run_dir))


def test_one_thread_of_a_process_trains_at_a_time(quick, whole_state, assert_same):
    """The second is refused by name, and can train afterwards; acting is free; a run may evaluate itself."""
    begun, may_go_on = threading.Event(), threading.Event()

    class Waiting(SeededWalk):
        def step(self, action):
            begun.set()
            assert may_go_on.wait(60)
            return super().step(action)

    class Noisy(Encoder):
        def forward(self, obs):
            return super().forward(obs) + 0.1 * torch.rand(())  # draws from torch's global generator

    other, saved = quick(SeededWalk), quick(SeededWalk)
    saved.train()
    _ = other.run
    first = quick(Waiting, model=Noisy)
    before = process_state()
    wait = in_thread(first.train)
    try:
        assert begun.wait(60)
        for refused in (
            other.train,
            other.evaluate,
            other.rollout,
            lambda: quick(SeededWalk).run,
            lambda: RunContext.open(saved.run_dir),
        ):
            with pytest.raises(ConfigError, match=f"another run is training in this process: {first.run_dir}"):
                refused()
        assert other.compute_action(np.zeros(2)) in other.run.action_space
    finally:
        may_go_on.set()
        wait()
    other.train()
    after = process_state()
    assert [name for name in before if before[name] != after[name]] == []
    alone = quick(Waiting, model=Noisy)
    alone.train()
    assert_same(whole_state(first.run_dir), whole_state(alone.run_dir))
    assert_same(whole_state(other.run_dir), whole_state(saved.run_dir))


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
    """Random states, threads, signal handlers, directory and environment; also after a failure."""

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
