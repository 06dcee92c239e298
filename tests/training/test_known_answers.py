"""Algorithms that learn values find known ones: of one agent and of several, with memory and without, with workers."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from maze_offpolicy import expectation

from maze_core.base.errors import ConfigError
from maze_core.data.sequences import Sequences
from maze_core.run.context import RunContext
from tests.training.payments import GAMMA, OBSERVATIONS, VALUES, Paying, PayingSource

SHORT = {
    "algorithm.gamma": GAMMA,
    "algorithm.n_epochs": 1,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
}
ROLLOUTS = {"algorithm.num_envs": 8, "algorithm.n_rollout_steps": 16, "algorithm.lr": 0.03, "model.hidden": [8]}
ACTORS = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 4, "algorithm.lr": 0.03, "model.hidden": [8]}
LEARNING = {
    "algorithm.batch_size": 64,
    "algorithm.epoch_length": 150,
    "algorithm.lr": 0.02,
    "algorithm.tau": 0.2,
    "model.hidden": [16],
}
REPLAY = LEARNING | {
    "algorithm.num_envs": 4,
    "algorithm.initial_buffer_size": 600,
    "algorithm.replay_buffer_size": 2000,
}
CRITICS = {"algorithm.critic_hidden": [16]}
RECORDED = LEARNING | CRITICS | {"algorithm.critic_lr": 0.02}
GREEDY = {"algorithm.entropy_tuning": False, "algorithm.entropy_coef": 1e-6}
"""Entropy is worth nothing."""
ATOMS = {"algorithm.atoms": 41, "algorithm.utd": 0.25}
SMALL_BLOCKS = {
    "algorithm.policy_width": 8,
    "algorithm.policy_blocks": 1,
    "algorithm.critic_width": 16,
    "algorithm.critic_blocks": 1,
    "algorithm.policy_delay": 1,
}
ALGORITHMS = {
    "ppo": ROLLOUTS | {"algorithm.epoch_length": 8},
    "a2c": ROLLOUTS | {"algorithm.epoch_length": 50, "algorithm.normalize_rewards": False},
    "impala": ACTORS
    | {"algorithm.n_rollout_steps": 10, "algorithm.epoch_length": 60, "algorithm.normalize_rewards": False},
    "appo": ACTORS | {"algorithm.n_rollout_steps": 20, "algorithm.epoch_length": 25},
    "trpo": ROLLOUTS | {"algorithm.epoch_length": 8},
    "pg": ROLLOUTS | {"algorithm.epoch_length": 50, "algorithm.normalize_rewards": False},
    "pqn": ROLLOUTS | {"algorithm.epoch_length": 30},
    "dqn": REPLAY | {"algorithm.target_update_interval": 1, "algorithm.n_step": 3},
    "apex": LEARNING
    | {
        "algorithm.num_actors": 2,
        "algorithm.initial_buffer_size": 600,
        "algorithm.replay_buffer_size": 2000,
        "algorithm.target_update_interval": 1,
    },
    "sac": REPLAY | CRITICS | GREEDY,
    "td3": REPLAY | CRITICS,
    "ddpg": REPLAY | CRITICS | {"algorithm.n_step": 2},
    "fast_td3": REPLAY | CRITICS | ATOMS | {"algorithm.v_min": -8, "algorithm.v_max": 8, "algorithm.weight_decay": 0.0},
    "flash_sac": REPLAY | ATOMS | SMALL_BLOCKS | {"algorithm.entropy_coef": 1e-6, "algorithm.epoch_length": 300},
    "iql": RECORDED,
    "cql": RECORDED | {"algorithm.alpha": 1e-6, "algorithm.entropy_coef": 1e-6},
    "td3_bc": RECORDED,
}
"""What finds the values in about a second."""
OF_FORCES = {"td3", "ddpg", "fast_td3", "flash_sac", "cql", "td3_bc"}
OFFLINE = {"iql", "cql", "td3_bc"}
MEMORY = {"model.memory": "gru", "model.memory_size": 8}
SEQUENCES = {"algorithm.sequence_length": 6, "algorithm.burn_in": 4}

WITHOUT_MEMORY = {"apex", "pqn", "td3", "ddpg", "fast_td3", "flash_sac", *OFFLINE}
WITHOUT_AGENTS = {"apex", "pqn", "flash_sac"}
CASES = {
    "ppo": ["one-forgets", "several-remembers"],
    "a2c": ["one-forgets"],
    "impala": ["one-forgets", "several-remembers-workers"],
    "appo": ["several-remembers"],
    "trpo": ["several-remembers"],
    "pg": ["several-remembers"],
    "pqn": ["one-forgets"],
    "dqn": ["several-forgets", "one-remembers"],
    "apex": ["one-forgets-workers"],
    "sac": ["one-remembers", "several-forgets"],
    "ddpg": ["one-forgets"],
    "fast_td3": ["several-forgets"],
    "flash_sac": ["one-forgets"],
    "iql": ["one-forgets"],
    "cql": ["several-forgets"],
    "td3_bc": ["one-forgets"],
}
"""Each with what it does differently: workers that step in lockstep change no bit, which other tests say."""
SLOW = {
    "fast_td3",
    "flash_sac",
    "appo",
    "trpo",
    "pg",
    "apex",
    "ddpg",
    "cql",
    "td3_bc",
    "impala-several",
    "dqn-one",
    "sac-several",
}


def is_refused(algorithm, agents, memory):
    return (memory and algorithm in WITHOUT_MEMORY) or (agents and algorithm in WITHOUT_AGENTS)


def cases():
    """The cases of all algorithms."""
    for algorithm, case in ((algorithm, case) for algorithm, cases in CASES.items() for case in cases):
        name = f"{algorithm}-{case}"
        marks = [pytest.mark.slow] * any(name.startswith(f"{each}-") for each in SLOW)
        flags = (word in name for word in ("several", "remembers", "workers"))
        yield pytest.param(algorithm, *flags, id=name, marks=marks)


@pytest.fixture
def learn(tmp_path, known_plugins):
    """`learn(algorithm, agents, memory, workers)`: a run of one epoch."""
    parts = {"seed": 1, "silent": True, "preset": "none"}

    def recorded(env, of_env):
        with RunContext(env, "ppo", overrides=SHORT | of_env, run_dir=tmp_path / "acts", **parts) as context:
            context.rollout(150, record=tmp_path / "recording", deterministic=False, seed=1)

    with ExitStack() as stack:

        def build(algorithm, agents, memory, workers):
            kind = "force" if algorithm in OF_FORCES else "choice"
            env, of_env = (PayingSource, {"env.actions": kind}) if agents else (partial(Paying, kind), {})
            values = SHORT | ALGORITHMS[algorithm] | of_env
            if memory:
                values |= MEMORY | (SEQUENCES if algorithm in ("dqn", "sac") else {})
            if algorithm in OFFLINE:
                if not is_refused(algorithm, agents, memory):
                    recorded(env, of_env)
                values["algorithm.dataset"] = str(tmp_path / "recording")
            runner = {"name": "local", "workers": 2} if workers else "dev"
            context = RunContext(env, algorithm, overrides=values, runner=runner, run_dir=tmp_path / "run", **parts)
            return stack.enter_context(context)

        yield build


def found_values(context, memory):
    """The values of the four states, [K, 4], by all critics and for all actions; those later follow on the first."""
    policy, critics = context.run.policy, getattr(context.run.algorithm, "critics", None)
    name = context.run.algorithm.config.name
    obs = {"observation": torch.from_numpy(OBSERVATIONS)}
    owner = policy if critics is None else critics
    sequences = Sequences(np.array([2, 2]), owner.initial_state(2)) if memory else None
    with torch.no_grad():
        if critics is None:
            return policy.value(obs, sequences).unsqueeze(0)
        forces = [-0.5, 0.5] if context.run.algorithm.actions.box_size else [None]
        if name == "flash_sac":
            features, scale = critics.features(policy.normalized(obs)), context.run.algorithm.rewards.factor
            each = [critics.logits(features, torch.full((4, 1), force), batch=False) for force in forces]
            return torch.cat([expectation(logits, critics.atoms) / scale for logits in each])
        features = critics.features(policy.normalized(obs), sequences)
        values = [critics.values(features, None if force is None else torch.full((4, 1), force)) for force in forces]
        if name == "fast_td3":
            return torch.cat([expectation(logits, context.run.algorithm.atoms) for logits in values])
    return torch.cat([each.permute(0, 2, 1).flatten(0, 1) for each in values])


@pytest.mark.parametrize(("algorithm", "agents", "memory", "workers"), [*cases()])
def test_known_values_are_found(learn, algorithm, agents, memory, workers):
    """A time limit is no end, an end is one, and what is paid while an agent waits is its own."""
    context = learn(algorithm, agents, memory, workers)
    context.train()
    found = found_values(context, memory)
    wanted = torch.tensor(list(VALUES.values())).expand_as(found)
    if algorithm == "flash_sac":  # no sum of past rewards is above 3, and nothing above that is expressed
        assert context.run.algorithm.rewards.factor == pytest.approx(5 / 3)
        wanted = wanted.clamp(max=3.0)
    torch.testing.assert_close(found, wanted, atol=0.2, rtol=0)


@pytest.mark.parametrize(
    ("algorithm", "agents", "memory"),
    [case for case in product(ALGORITHMS, (False, True), (False, True)) if is_refused(*case)],
)
def test_what_an_algorithm_cannot_learn_is_refused(learn, algorithm, agents, memory):
    words = "does not train policies with memory" if memory and not agents else "with memory|learns from one agent's"
    with pytest.raises(ConfigError, match=words):
        learn(algorithm, agents, memory, workers=False).train()
