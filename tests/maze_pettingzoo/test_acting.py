"""A trained policy in an environment of PettingZoo itself acts as it does in Maze."""

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

import torch
from maze_actors.vector_env import AgentsVectorEnv
from maze_models.several.acting import SeveralAgents
from pettingzoo.classic import connect_four_v3, rps_v2

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.network import NetworkAgent
from maze_core.envs.spaces import allocate, space_specs
from maze_core.run.context import RunContext

CONNECT_FOUR, RPS = "pettingzoo.classic:connect_four_v3", "pettingzoo.classic:rps_v2"
SEEDS = EpisodeSeeds(4, Purpose.EVAL_EPISODES)
OPTIONS = (
    {},
    {"env.agent_id": True},
    {"env.critic": "all"},
    {"env.elapsed": "round"},
    {"model.groups": "per_actor"},
)
TINY = {
    "env.name": "pettingzoo",
    "algorithm.n_rollout_steps": 8,
    "algorithm.num_envs": 2,
    "algorithm.epoch_length": 1,
    "algorithm.batch_size": 16,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
}


@pytest.fixture
def opened(tmp_path, known_plugins):
    contexts = []

    def build(env_id, overrides=None):
        values = TINY | {"env.id": env_id} | (overrides or {})
        context = RunContext(overrides=values, preset="none", epochs=1, seed=1, silent=True, run_dir=tmp_path / "run")
        contexts.append(context)
        context.train()
        return context

    yield build
    for context in contexts:
        context.close()


def as_in_maze(context, steps):
    """Who acted, and how, in the first episode."""
    builder = context.run.env_builder("evaluation")
    env = AgentsVectorEnv(builder.agents_env, 1, agent_ids=builder.agent_ids)
    agent, obs = NetworkAgent(context.policy, None), allocate(space_specs(env.observation_space, "observation"), (2,))
    env.reset(SEEDS, obs)
    agent.begin([0, 1])
    found, acting = [], env._acting.copy()
    for _ in range(steps):
        agent.wait(np.flatnonzero(~acting))
        actions = agent.act(obs).actions
        rows = zip(env.agents, env._actions.rows(actions), acting, strict=True)
        found += [(name, int(env._layout.own(name, row))) for name, row, acts in rows if acts]
        result = env.step(actions, obs)
        acting = result.acting
        if result.episodes:
            break
    env.close()
    return found


def as_in_pettingzoo(agents: SeveralAgents, env, parallel):
    agents.reset()
    found = []
    if parallel:
        observations, infos = env.reset(seed=SEEDS(0, 0))
        while env.agents:
            actions = {name: agents.act(name, observations[name], infos[name]) for name in env.agents}
            found += [(name, int(action)) for name, action in actions.items()]
            observations, _, _, _, infos = env.step(actions)
        return found
    env.reset(seed=SEEDS(0, 0))
    for name in env.agent_iter():
        observation, _, terminated, truncated, info = env.last()
        action = None if terminated or truncated else agents.act(name, observation, info)
        found += [] if action is None else [(name, int(action))]
        env.step(action)
    return found


def in_own_environment(context):
    """The same in an environment of the run's: what it shows is not converted again."""
    env = context.make_env()
    agents, outcome, found = context.agents(env=env), env.reset(SEEDS(0, 0)), []
    while outcome.acting:
        actions = {name: agents.act(name, seen) for name, seen in outcome.acting.items()}
        found += [(name, int(action)) for name, action in actions.items()]
        outcome = env.step(actions)
    env.close()
    return found


@pytest.mark.parametrize(
    ("options", "parallel", "memory"),
    [(options, *((False, "gru"), (True, "none"))[number % 2]) for number, options in enumerate(OPTIONS)],
)
def test_agents_act_as_in_training(opened, options, memory, parallel):
    context = opened(RPS if parallel else CONNECT_FOUR, options | {"model.memory": memory})
    env = rps_v2.parallel_env() if parallel else connect_four_v3.env()
    agents = context.agents()
    played = as_in_pettingzoo(agents, env, parallel)
    assert len(played) >= 7
    assert {name for name, _ in played} == set(agents.names) == {"player_0", "player_1"}
    assert played == as_in_maze(context, len(played)) == in_own_environment(context)
    assert as_in_pettingzoo(agents, env, parallel) == played, "a reset does not make it forget"


def test_agents_with_spaces_of_their_own_act_in_them(opened):
    mpe = pytest.importorskip("mpe2")
    from mpe2 import simple_speaker_listener_v4

    assert mpe
    context = opened("mpe2:simple_speaker_listener_v4")
    env = simple_speaker_listener_v4.parallel_env()
    observations, infos = env.reset(seed=1)
    agents = context.agents()
    for _ in range(5):
        actions = {name: agents.act(name, observations[name], infos[name]) for name in env.agents}
        assert all(env.action_space(name).contains(action) for name, action in actions.items())
        observations, _, _, _, infos = env.step(actions)


def test_sampled_actions_obey_masks_and_the_generator(opened):
    context = opened(CONNECT_FOUR)
    env, played = connect_four_v3.env(), []
    for seed in (1, 1, 2):
        builder, generator = context.run.env_builder("acting"), torch.Generator().manual_seed(seed)
        agents = SeveralAgents(context.policy, builder, deterministic=False, generator=generator)
        played.append(as_in_pettingzoo(agents, env, False))  # PettingZoo refuses illegal moves
    assert played[0] == played[1] != played[2]


def test_wrong_calls_say_what_to_do(opened, tmp_path):
    context = opened(CONNECT_FOUR)
    agents = context.agents()
    for call, message in (
        (context.agent, r"several agents act in this environment.*\n.*context.agents\(\)"),
        (lambda: context.compute_action(None), "several agents act"),
        (lambda: agents.act("nobody", None), r"there is no agent 'nobody'\n.*player_0, player_1"),
        (lambda: agents.act("player_0", {"observation": np.zeros(3), "action_mask": np.ones(7, np.int8)}), "shape"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
    with (
        RunContext("CartPole-v1", "ppo", silent=True, run_dir=tmp_path / "single") as single,
        pytest.raises(ConfigError, match=r"one agent acts in this environment\n.*context.agent\(\)"),
    ):
        single.agents()
