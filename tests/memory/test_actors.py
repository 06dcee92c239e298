"""Each actor of a stream remembers its own rows: whole sequences give what single steps of each actor give."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_devkit.turns import Carousel
from maze_models.several.actor_policy import ActorPolicy
from maze_onpolicy.data.pieces import critic_memory_after
from maze_onpolicy.learn.recurrent import all_rows, remembered_values

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.policies.random import RandomPolicy
from maze_core.data.rollout import Rollout
from maze_core.data.sequences import Sequences
from maze_core.envs.actors import actors_of
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.building import build_policy
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.plugins.config.base import PluginConfig
from maze_core.run.context import RunContext

STEPS, AGENT_ROWS = 17, 3
GROUPS = ["shared", "per_actor"]


def policy_of(kind, groups) -> ActorPolicy:
    torch.manual_seed(0)
    settings = MlpConfig(
        name="m", memory=kind, memory_size=4, memory_window=3, groups=groups, hidden=(5,), orthogonal_init=False
    )
    env = Carousel()
    spaces = env.observation_space, env.action_space
    return build_policy(MlpModel(settings).build_policy, *spaces, settings).eval()


@pytest.fixture(scope="module")
def rollout():
    """Random steps in which episodes end, as a rollout without its memory."""
    env = SerialVectorEnv(lambda _: Carousel(), AGENT_ROWS)
    specs = space_specs(env.observation_space, "observation")
    obs = allocate(specs, (STEPS + 1, AGENT_ROWS))
    random = RandomPolicy(PluginConfig(name="random"))
    random.setup(env.observation_space, env.action_space)
    rngs = [np.random.default_rng(i) for i in range(AGENT_ROWS)]
    flags = {name: np.zeros((STEPS, AGENT_ROWS), bool) for name in ("terminated", "truncated")}
    rewards, truncations = np.zeros((STEPS, AGENT_ROWS), np.float32), []
    env.reset(EpisodeSeeds(4, Purpose.TRAIN_EPISODES), {key: leaf[0] for key, leaf in obs.items()})
    for t in range(STEPS):
        rows = {key: leaf[t] for key, leaf in obs.items()}
        result = env.step(random.act(rows, rngs), {key: leaf[t + 1] for key, leaf in obs.items()})
        rewards[t], flags["terminated"][t], flags["truncated"][t] = result.reward, result.terminated, result.truncated
    env.close()
    assert flags["terminated"].any()
    assert not flags["truncated"].any()
    assert set(obs["turn/actor"].ravel().tolist()) == {0, 1, 2}
    return Rollout(obs, {}, rewards, **flags, valid=np.ones((STEPS, AGENT_ROWS), bool), truncations=truncations)


def rows_of(rollout, t, agent_row):
    return {key: torch.from_numpy(leaf[t, agent_row : agent_row + 1]) for key, leaf in rollout.obs.items()}


def one_by_one(policy, rollout):
    """Entropies and values by the groups' own policies, row after row, and what is remembered after them; an oracle."""
    names, ended = actors_of(policy.observation_space).names, rollout.terminated | rollout.truncated
    entropies, values, ends = np.zeros((STEPS, AGENT_ROWS)), np.zeros((STEPS + 1, AGENT_ROWS)), []
    for agent_row in range(AGENT_ROWS):
        states = {}
        for t in range(STEPS + 1):
            if t and ended[t - 1, agent_row]:
                states = {}
            if t == STEPS:
                ends.append(dict(states))
            row = rows_of(rollout, t, agent_row)
            actor = int(row["turn/actor"])
            (group,) = [each for each in policy.groups if actor in each.actors]
            single, kind = policy.policies[f"{group.name}_policy"], group.kind
            seen = {k.removeprefix(f"{kind}/"): v for k, v in row.items() if k.startswith((f"{kind}/", "critic/"))}
            if len(group.actors) > 1:
                seen["actor_id"] = torch.tensor([group.actors.index(actor)])
            before = states.get(names[actor], single.initial_state(1))
            distribution, value, states[names[actor]] = single.unroll(seen, Sequences(np.array([1]), before))
            values[t, agent_row] = value.item()
            if t < STEPS:
                entropies[t, agent_row] = distribution.entropy().item()
    return entropies, values, ends


@pytest.mark.parametrize(("kind", "groups"), [("gru", GROUPS[1]), ("lstm", GROUPS[0]), ("window", GROUPS[1])])
def test_sequences_and_steps_give_what_each_actor_gives_alone(rollout, kind, groups):
    policy = policy_of(kind, groups)
    entropies, values, states = one_by_one(policy, rollout)
    fresh = policy.initial_state(AGENT_ROWS)
    assert {key.partition("/")[0] for key in fresh} == {"choose", "left", "right"}
    rollout.memory = {key: leaf.numpy() for key, leaf in fresh.items()}
    flat = {key: torch.from_numpy(leaf.reshape(-1, *leaf.shape[2:])) for key, leaf in rollout.obs.items()}
    for length in (None, 2, 5):
        found, following, sequences = remembered_values(policy, rollout, flat, length)
        np.testing.assert_allclose(found, values[:-1], rtol=1e-4, atol=1e-5)
        goes_on = ~rollout.terminated
        np.testing.assert_allclose(following[goes_on], values[1:][goes_on], rtol=1e-4, atol=1e-5)
        order, sequences.order = sequences.order, None
        batch = {key: leaf[order] for key, leaf in flat.items()}
        distribution, value = policy(batch, sequences)
        np.testing.assert_allclose(distribution.entropy().detach(), entropies.ravel()[order], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(value.detach(), values[:-1].ravel()[order], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(policy.value(batch, sequences), value)
    for key, leaf in critic_memory_after(policy, rollout).items():
        name, _, own = key.partition("/")
        for agent_row, ended in enumerate(states):
            wanted = ended[name][own] if name in ended else fresh[key][agent_row : agent_row + 1]
            torch.testing.assert_close(leaf[agent_row : agent_row + 1], wanted, rtol=1e-4, atol=1e-5)
    everything = {key: leaf[: STEPS * AGENT_ROWS] for key, leaf in flat.items()}
    whole = policy.distribution(everything, all_rows(policy, rollout)).entropy()
    np.testing.assert_allclose(whole.detach(), entropies.ravel(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("kind", ["gru", "window"])
def test_steps_of_all_agent_rows_at_once(rollout, kind, groups):
    policy = policy_of(kind, groups)
    entropies, _, _ = one_by_one(policy, rollout)
    state, ended = policy.initial_state(AGENT_ROWS), rollout.terminated | rollout.truncated
    for t in range(STEPS):
        rows = {key: torch.from_numpy(leaf[t]) for key, leaf in rollout.obs.items()}
        before = state
        distribution, state = policy.step(rows, state)
        np.testing.assert_allclose(distribution.entropy().detach(), entropies[t], rtol=1e-4, atol=1e-5)
        for agent_row, actor in enumerate(rows["turn/actor"].tolist()):
            changed = {k.partition("/")[0] for k in state if (state[k][agent_row] != before[k][agent_row]).any()}
            assert changed <= {actors_of(policy.observation_space).names[actor]}
        fresh = policy.initial_state(AGENT_ROWS)
        begun = torch.from_numpy(ended[t])
        state = {k: torch.where(begun.reshape(-1, *[1] * (v.ndim - 1)), fresh[k], v) for k, v in state.items()}


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [("ppo", "lstm"), pytest.param("appo", "lstm", marks=pytest.mark.slow), ("a2c", "window")],
)
def test_runs_that_are_stopped_and_resumed_are_the_same(quick, whole_state, assert_same, algorithm, kind):
    values = {"model.memory": kind, "model.memory_size": 4, "model.hidden": [8], "algorithm.n_epochs": 3}
    whole = quick(Carousel, algorithm, values)
    whole.train()
    parts = quick(Carousel, algorithm, values)
    parts.train(1)
    again = quick(Carousel, algorithm, values)
    again.resume(parts.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(parts.run_dir))
    assert isinstance(again, RunContext)
