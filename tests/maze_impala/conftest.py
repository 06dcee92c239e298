"""What tests of IMPALA share."""

import pytest

SMALL = {
    "algorithm.num_actors": 2,
    "algorithm.envs_per_actor": 2,
    "algorithm.actors_batch_size": 4,
    "algorithm.n_rollout_steps": 9,
}


@pytest.fixture
def small(quick):
    """`small(env, overrides, **parts)`: a quick run of two actors with two environments each."""

    def build(*args, overrides=None, **parts):
        return quick(*args, algorithm="impala", overrides=SMALL | (overrides or {}), **parts)

    return build
