"""`env.max_episode_steps` of every env source, and of ids that are registered in their vectorised form alone."""

import gymnasium
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from maze_actors.agents import LimitedAgents
from maze_devkit.envs import CountingEnv, SeededWalk

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery

pytest.importorskip("pettingzoo")
pytest.importorskip("mpe2")
from maze_pettingzoo.adapters import AgentsTogether
from mpe2 import simple_spread_v3
from pettingzoo.utils import BaseParallelWrapper

NATIVE = {"name": "gymnasium", "vectorization": "native"}
SOURCES = {
    "gymnasium": {"name": "gymnasium", "id": "Limits/Endless-v0"},
    "a class of a module": {"name": "gymnasium", "id": "maze_devkit.envs:CountingEnv", "kwargs": {"length": 99}},
    "native": {**NATIVE, "id": "CartPole-v1"},
    "vectorised alone": {**NATIVE, "id": "Limits/Vectorised-v0"},
    "agents together": {"name": "pettingzoo", "id": "mpe/simple_spread_v3"},
    "agents in turn": {"name": "pettingzoo", "id": "connect_four_v3"},
    "envpool": {"name": "envpool", "id": "CartPole-v1"},
    "jax": {"name": "jax", "id": "gymnax:CartPole-v1"},
    "jax_games": {"name": "jax_games", "id": "pgx:tic_tac_toe"},
    "atari": {"name": "atari", "id": "ALE/Pong-v5", "height": 36, "width": 36},
    "cutting_2d": {"name": "cutting_2d"},
    "cutting_2d in turns": {"name": "cutting_2d", "form": "structured"},
}
NEEDS = {"mpe/simple_spread_v3": "mpe2", "connect_four_v3": "pettingzoo.classic", "envpool": "envpool",
         "jax": "gymnax", "jax_games": "pgx"}  # fmt: skip
LIMIT = 3
"""Shorter than any game, so that a random policy shows it."""


class WithoutLimit(CartPoleVectorEnv):
    """It takes no time limit."""

    def __init__(self, num_envs):
        super().__init__(num_envs)


@pytest.fixture(scope="module", autouse=True)
def registered():
    known = dict(gymnasium.registry)
    gymnasium.register("Limits/Endless-v0", lambda: CountingEnv(10**6))
    gymnasium.register("Limits/Vectorised-v0", vector_entry_point=CartPoleVectorEnv)
    gymnasium.register("Limits/Registered-v0", vector_entry_point=CartPoleVectorEnv, max_episode_steps=4)
    gymnasium.register("Limits/Without-v0", SeededWalk, vector_entry_point=WithoutLimit)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(known)


def lengths(quick, env):
    model = {"model.name": "cnn"} if env["name"] == "atari" else {}
    small = {"algorithm.num_envs": 2, "algorithm.n_rollout_steps": 4, "evaluation.n_episodes": 2}
    return quick(env, "a2c", small | model).evaluate()["eval/length_median"]


@pytest.mark.parametrize(
    "source", [pytest.param(each, marks=[pytest.mark.slow] * (each == "atari")) for each in SOURCES]
)
def test_every_source_has_it(quick, source):
    env = SOURCES[source]
    if env["name"] not in discovery.names("env"):
        pytest.skip(f"{env['name']} is not installed")
    for key in (env["name"], env.get("id")):
        if key in NEEDS:
            pytest.importorskip(NEEDS[key])
    assert lengths(quick, {**env, "max_episode_steps": LIMIT}) == LIMIT


def test_no_source_lacks_it():
    lacking = [
        name
        for name in discovery.names("env")
        if "max_episode_steps" not in discovery.load("env", name).Config.model_fields
    ]
    assert lacking == []


def test_a_whole_environment_is_wrapped_below_the_limit():
    limited = LimitedAgents(AgentsTogether(simple_spread_v3.parallel_env()), LIMIT)
    wrapped = limited.rewrapped(BaseParallelWrapper)
    assert isinstance(wrapped.env.env, BaseParallelWrapper)
    wrapped.reset(1)
    going = [bool(wrapped.step(dict.fromkeys(wrapped.agents, 0)).acting) for _ in range(LIMIT)]
    assert going == [True] * (LIMIT - 1) + [False]


def test_an_id_with_a_vectorised_form_alone(quick):
    quick("Limits/Vectorised-v0", "a2c").train(1)
    assert lengths(quick, {**NATIVE, "id": "Limits/Registered-v0"}) == 4
    context = quick({**NATIVE, "id": "Limits/Registered-v0"}, "a2c")
    env = context.make_env()
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert context.compute_action(observation) in (0, 1)
    with pytest.raises(ConfigError, match=r"max_episode_steps: the vectorised form .* takes no time limit"):
        quick({**NATIVE, "id": "Limits/Without-v0", "max_episode_steps": 4}, "a2c").train(1)
