"""Where RLlib's processes run: learners and env runners on Ray, and what Ray has no room for."""

import os

import pytest
import torch
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError

RAY = {"name": "ray", "workers": 1}


@pytest.mark.slow
def test_env_runners_and_a_learner_on_the_runner_ray(small):
    context = small("rllib-ppo", "CartPole-v1", {"algorithm.num_learners": 1}, runner=RAY)
    before = {name: leaf.clone() for name, leaf in context.policy.named_parameters()}
    context.train()
    rllib = context.run.algorithm._trainer._algorithm
    assert (len(rllib.learner_group), rllib.env_runner_group.num_remote_env_runners()) == (1, 1)
    assert all(not torch.equal(leaf, before[name]) for name, leaf in context.policy.named_parameters())
    pids = rllib.env_runner_group.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)
    priorities = [os.getpriority(os.PRIO_PROCESS, pid) for pid in pids]  # Ray's own would let the driver interrupt it
    assert priorities == [os.getpriority(os.PRIO_PROCESS, 0)]
    trainer = context.run.algorithm._trainer
    state = trainer.state()
    zeros = {name: torch.zeros_like(leaf) for name, leaf in state["module"].items()}
    trainer.load_state({**state, "module": zeros})
    assert not any(leaf.any() for leaf in trainer.state()["module"].values())
    trainer.load_state(state)
    assert all(torch.equal(trainer.state()["module"][name], leaf) for name, leaf in state["module"].items())
    assert state["optimizers"]


@pytest.mark.slow
def test_a_gpu_is_asked_for_where_there_is_one(small):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match=r"algorithm.num_gpus_per_learner: this process sees no GPU"):
        small("rllib-ppo", SeededWalk, {"algorithm.num_gpus_per_learner": 1}).train()
