"""Several agents on workers: in lockstep, bit-equal to one process, also where workers are lost or a run moves."""

import os
import signal

import pytest
from maze_local.pooled_envs import PooledVectorEnv

from maze_core.collect.pools.dev import DevRunner
from tests.agents import CrowdSource
from tests.forgetful import Forgetful

SMALL = {"model.hidden": [8], "algorithm.n_rollout_steps": 9, "algorithm.num_envs": 5, "algorithm.n_epochs": 4}
CASES = {
    "ppo": {"model.memory": "gru"},
    "sac": {
        "algorithm.initial_buffer_size": 30, "algorithm.batch_size": 8, "algorithm.epoch_length": 8,
        "algorithm.critic_hidden": [8],
    },
}  # fmt: skip


@pytest.fixture
def on_workers(monkeypatch):
    """`on_workers(count, every)`: from now on `dev` steps environments on so many; every few jobs one is lost."""

    def put(count, every):
        monkeypatch.setattr(Forgetful, "every", every)
        make = lambda runner, builder, envs: PooledVectorEnv(builder, envs, count, Forgetful)  # noqa: E731
        monkeypatch.setattr(DevRunner, "vector_env", make)

    return put


@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("sac", marks=pytest.mark.slow)])
def test_a_run_is_bit_equal_where_workers_are_lost_and_moves_to_others(
    quick, on_workers, whole_state, assert_same, algorithm
):
    values = SMALL | CASES[algorithm]
    whole = quick(CrowdSource, algorithm, values)
    whole.train()
    on_workers(2, every=4)
    half = quick(CrowdSource, algorithm, values)
    half.train(2)
    half.close()
    on_workers(3, every=7)
    later = quick(CrowdSource, algorithm, values, run_dir=None)
    assert later.resume(half.run_dir).outcome == "finished"
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_worker_processes_some_of_which_are_killed(quick, whole_state, assert_same):
    """Those of training and of evaluations, on the runner `local`."""
    two = {"evaluation.num_envs": 2, "evaluation.n_episodes": 2}
    folders = []
    for runner in ("dev", {"name": "local", "workers": 2}):
        context = quick(CrowdSource, "ppo", SMALL | two, runner=runner)
        context.train(2)
        if runner == "dev":
            context.train()
        else:
            pools = [env.workers for env in (context.run.training_env(5), context.run.environments.evaluation)]
            for pool in pools:
                os.kill(pool.pids[1], signal.SIGKILL)
            with pytest.warns(RuntimeWarning, match="worker 1 of environment.* died with exit code -9"):
                context.train()
            assert [pool.restarts for pool in pools] == [1, 1]
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))
