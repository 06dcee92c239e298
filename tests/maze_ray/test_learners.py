"""Several learners as Ray actors."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import RunError
from tests.sockets import listening, tree

pytest.importorskip("ray")
pytestmark = [pytest.mark.usefixtures("local_ray"), pytest.mark.slow]


def test_actors_give_the_same_as_one_learner_until_one_is_lost(quick):
    ray, values = {"name": "ray", "workers": 1}, {"evaluation.n_episodes": 0}
    one, two = (quick(SeededWalk, "ppo", {"learners": n, **values}, runner=ray if n > 1 else "dev") for n in (1, 2))
    for context in (one, two):
        context.train()
    for name, value in one.policy.state_dict().items():
        torch.testing.assert_close(two.policy.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert {line.split()[0] for line in listening(tree(os.getpid()))} == {"127.0.0.1"}
    ((process,),) = (pool.pids for pool in two.run.environments.pools)
    os.kill(process, signal.SIGKILL)
    with pytest.raises(RunError, match=rf"learner 1 \(process {process}\) was lost"):
        two.train(2)
