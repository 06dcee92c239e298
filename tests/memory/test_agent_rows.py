"""Memory where several agents act: an agent row remembers its own rows; while it waits, nothing is added."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_actors.vector_env import AgentsVectorEnv
from maze_onpolicy.collect.sampler import Sampler
from maze_onpolicy.learn.recurrent import all_rows, remembered_values

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.network import NetworkAgent
from maze_core.data.sequences import Sequences
from maze_core.models.building import build_policy
from maze_core.models.mlp import MlpConfig, MlpModel
from tests.agents import Crowd, CrowdSource, Mixed, MixedSource

OVERRIDES = {"evaluation.n_episodes": 0}

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
AGENT_ROWS = 6


def sampler_of(env, kind, steps, **more):
    env = AgentsVectorEnv(lambda _: env(), AGENT_ROWS // 3, agent_ids=more.get("groups", "shared") != "shared")
    config = MlpConfig(
        name="mlp", hidden=[4], memory=kind, memory_size=3, memory_window=3, orthogonal_init=False, **more
    )
    torch.manual_seed(1)
    policy = build_policy(MlpModel(config).build_policy, env.observation_space, env.action_space, config).eval()
    network = NetworkAgent.sampling(policy, env.num_envs, torch.Generator().manual_seed(5))
    return policy, Sampler(network, env, steps, SEEDS)


class Oracle:
    """Reads the transitions of each agent row one by one, and forgets where an episode of the agent row ends."""

    def __init__(self, policy):
        self.policy, self.states = policy, [policy.initial_state(1) for _ in range(AGENT_ROWS)]

    def read(self, rollout, t, agent_row):
        """Return entropy and value of a row, and what was remembered before it."""
        before = self.states[agent_row]
        row = {key: torch.from_numpy(leaf[t, agent_row : agent_row + 1]) for key, leaf in rollout.obs.items()}
        with torch.no_grad():
            distribution, value, after = self.policy.unroll(row, Sequences(np.array([1]), before))
        ended = rollout.terminated[t, agent_row] | rollout.truncated[t, agent_row]
        self.states[agent_row] = self.policy.initial_state(1) if ended else after
        return distribution.entropy().item(), value.item(), before


@pytest.mark.parametrize(
    ("env", "kind", "more", "steps"),
    [
        (Crowd, "lstm", {"critic": "shared"}, 9),
        (Crowd, "window", {"groups": "per_actor"}, 1),
        (Mixed, "gru", {}, 1),
    ],
)
def test_every_agent_row_remembers_the_rows_in_which_it_acted(env, kind, more, steps):
    policy, sampler = sampler_of(env, kind, steps, **more)
    oracle, carried, ended = Oracle(policy), 0, 0
    for _ in range(-(-40 // steps)):
        was_open = sampler.state().get("open", np.zeros(AGENT_ROWS, bool)).copy()
        rollout = sampler.collect()
        ended += (rollout.terminated | rollout.truncated).sum()
        flat = {key: torch.from_numpy(leaf.reshape(-1, *leaf.shape[2:])) for key, leaf in rollout.obs.items()}
        values, following, sequences = remembered_values(policy, rollout, flat)
        everything = {key: leaf[: steps * AGENT_ROWS] for key, leaf in flat.items()}
        with torch.no_grad():
            entropy = policy.distribution(everything, all_rows(policy, rollout)).entropy().reshape(steps, AGENT_ROWS)
        assert sequences.lengths.sum() == rollout.valid.sum()
        for agent_row in range(AGENT_ROWS):
            for t in np.flatnonzero(rollout.valid[:, agent_row]):
                its_entropy, value, before = oracle.read(rollout, t, agent_row)
                if t == 0:
                    carried += was_open[agent_row]
                    for key, leaf in before.items():
                        np.testing.assert_allclose(rollout.memory[key][agent_row], leaf[0], atol=1e-5)
                assert values[t, agent_row] == pytest.approx(value, abs=1e-5)
                assert entropy[t, agent_row].item() == pytest.approx(its_entropy, abs=1e-5)
                if t and rollout.continues[t - 1, agent_row]:
                    assert following[t - 1, agent_row] == pytest.approx(value, abs=1e-5)
    assert carried
    assert ended > AGENT_ROWS


@pytest.mark.parametrize(
    ("source", "algorithm"),
    [
        (CrowdSource, "impala"),
        (MixedSource, "ppo"),
        *(pytest.param(MixedSource, algorithm, marks=pytest.mark.slow) for algorithm in ("a2c", "impala")),
    ],
)
def test_runs_with_agents_memory_and_masks_resume_exactly(quick, whole_state, assert_same, algorithm, source):
    """With different spaces too; transitions are open when it is saved."""
    more = {"model.hidden": [6], "model.memory": "gru", "model.memory_size": 5, "algorithm.n_rollout_steps": 7}
    more |= {"model.normalize_observations": True, "algorithm.sequence_length": 3}
    if algorithm == "impala":
        more |= {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}
        del more["algorithm.sequence_length"]
    whole = quick(source, algorithm, more | {"algorithm.n_epochs": 4})
    whole.train()
    half = quick(source, algorithm, more)
    half.train()
    quick(source, algorithm, more | {"algorithm.n_epochs": 4}, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
