"""SAC with memory: its loss against single steps through whole episodes, what it refuses, and runs that go on."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_devkit.turns import Carousel
from maze_offpolicy.collect.replay_collector import ReplayCollector
from maze_recordings.loader import load_trajectories

from maze_core.base.errors import ConfigError
from maze_core.models.policy import Policy
from tests.bomb import bomb
from tests.diary import Diary, rows_until
from tests.interrupted import interrupted

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))


STILL = {
    "algorithm.lr": 1e-30,
    "algorithm.tau": 1e-9,
    "algorithm.initial_buffer_size": 90,
    "algorithm.replay_buffer_size": 5000,
    "model.hidden": [8],
    "model.memory_size": 4,
}
"""Networks that do not change: what was remembered then is what is remembered now."""


def decided(policy, obs):
    """The distribution at the last of some observations, by single steps from the beginning of the episode."""
    state = policy.initial_state(1)
    for t in range(len(obs["page"])):
        distribution, state = policy.step({key: leaf[t : t + 1] for key, leaf in obs.items()}, state)
    return distribution


def valued(critics, obs, box):
    """The values of the last of some observations, [K, 1, C], each critic stepping its own memory."""
    flat = critics.encoders[0](obs)
    last = []
    for number in range(critics.count):
        memory = critics.memories.memories[number % len(critics.memories.memories)]
        state = memory.initial_state(1)
        for t in range(len(flat)):
            features, state = memory.step(flat[t : t + 1], state)
        last.append(features)
    return critics.values(torch.stack(last), box)


EXTRAS = {"choices": {"bits": spaces.MultiBinary(2)}, "choices and a box": {"force": BOX}}


SEQUENCES = {
    "own": {"model.memory": "gru", "algorithm.sequence_length": 4, "algorithm.burn_in": 0, "algorithm.num_envs": 2},
    "window": {
        "model.memory": "window", "model.memory_window": 4, "algorithm.sequence_length": 3, "algorithm.burn_in": 2
    },
    "n-step": {
        "model.memory": "lstm", "algorithm.sequence_length": 50, "algorithm.n_step": 3, "algorithm.burn_in": 9
    },
    "shared": {"model.memory": "gru", "algorithm.sequence_length": 5, "algorithm.critic_memory": "shared"},
    "learnt since": {"model.memory": "gru", "algorithm.sequence_length": 4, "algorithm.burn_in": 14},
    "shared, learnt since": {
        "model.memory": "gru", "algorithm.sequence_length": 3, "algorithm.burn_in": 16,
        "algorithm.critic_memory": "shared",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "name"), [*(("choices and a box", name) for name in [*SEQUENCES][::2]), ("choices", "shared")]
)
def test_the_loss_is_that_of_single_steps_through_whole_episodes(sac, extra, name):
    values = SEQUENCES[name]
    context = sac(lambda: Diary(EXTRAS[extra]), STILL | {"algorithm.gamma": 0.9} | values)
    context.train()
    run, algorithm = context.run, context.run.algorithm
    policy, critics, actions = run.policy, algorithm.critics, algorithm.actions
    if values.get("algorithm.burn_in", 0) >= 14:  # whole episodes are read again, by each network with its own memory
        with torch.no_grad():
            for parameter in (*policy.parameters(), *critics.parameters()):
                parameter += 0.2 * torch.randn_like(parameter)
    batch = algorithm.kept["collector"].replay.sample(
        np.random.default_rng(0), 20, 0.9, n_step=values.get("algorithm.n_step", 1)
    )
    count, lengths = len(batch), batch.sequences.lengths
    assert (batch.extra["discount"] == 0).any()
    assert (batch.obs["page"][:, 1] > 0).any()
    random = algorithm.noise.get_state()
    with torch.no_grad():
        loss = algorithm.compute_loss(policy, batch)
        algorithm.noise.set_state(random)
        after, before = (
            policy.draw_noise((size,), algorithm.noise) if actions.box_size else {}
            for size in (count + len(lengths), count)
        )
        alpha, terms, policy_terms = algorithm.temperature.coefficient(), [], []
        for row in range(count):
            obs, following = rows_until(batch.obs["page"][row]), rows_until(batch.next_obs["page"][row])
            place = int(batch.sequences.following[row])
            choice = one_decision(policy, actions, following, after, place)
            value = (
                choice.least(valued(algorithm.targets.module, following, choice.box)) - alpha * choice.negative_entropy
            )
            target = batch.extra["reward"][row] + batch.extra["discount"][row] * value
            taken = {key: leaf[row : row + 1] for key, leaf in batch.actions.items()}
            values_taken = actions.chosen(valued(critics, obs, actions.canonical(taken)), taken)
            terms.append(0.5 * (values_taken - target).square().sum())
            choice = one_decision(policy, actions, obs, before, row)
            policy_terms.append(alpha * choice.negative_entropy - choice.least(valued(critics, obs, choice.box)))
    torch.testing.assert_close(loss.metrics["critic"], torch.stack(terms).mean(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss.metrics["policy"], torch.stack(policy_terms).mean(), rtol=1e-4, atol=1e-5)


def one_decision(policy, actions, obs, noise, place):
    from maze_sac.actions import decide

    return decide(actions, decided(policy, obs), {key: leaf[place : place + 1] for key, leaf in noise.items()})


def test_gradients_do_not_reach_the_burn_in(sac):
    """The first half of an episode is read without gradient: parameters get one from the second half alone."""
    values = {"model.memory": "gru", "algorithm.sequence_length": 3, "algorithm.burn_in": 3}
    context = sac(lambda: Diary({}), values)
    context.train()
    algorithm = context.run.algorithm
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 30, 0.9)
    late = batch.obs["page"][batch.sequences.starts][:, 1] > 0
    assert late.any()
    assert (batch.sequences.memories["critics/0/hidden"][late] != 0).any()
    assert not any(leaf.requires_grad for leaf in batch.sequences.memories.values())


REFUSED = [
    ({"algorithm.split_rollouts_into_transitions": False}, "split_rollouts_into_transitions"),
    ({"algorithm.sequence_length": 126, "algorithm.num_envs": 2}, "sequence_length"),
    ({"steps": 40, "algorithm.sequence_length": 40}, "sequence_length"),
]


@pytest.mark.parametrize(("values", "where"), REFUSED, ids=[where + str(n) for n, (_, where) in enumerate(REFUSED)])
def test_what_memory_cannot_have_is_refused_by_name(sac, values, where):
    with pytest.raises(ConfigError) as caught:
        sac(SeededWalk, {"model.memory": "gru", **values}).train()
    assert caught.value.where == f"algorithm.{where}"


class OwnPolicy(Policy):
    """A policy class of one's own."""

    def __init__(self, observation_space, action_space):
        from maze_memories.recurrent import GruMemory, RecurrentConfig

        from maze_core.models.inputs import MlpEncoder, input_spaces

        encoder = MlpEncoder(input_spaces(observation_space, action_space), (8,), "tanh")
        make = lambda features: GruMemory(features, RecurrentConfig(size=4))  # noqa: E731
        super().__init__(observation_space, action_space, encoder, has_critic=False, make_memory=make)


def test_a_policy_class_of_ones_own_needs_to_say_what_memory_its_critics_have(sac):
    with pytest.raises(ConfigError, match="the critics need a memory too, and OwnPolicy does not say which") as caught:
        sac(SeededWalk, {"model.critic": "none"}, model=OwnPolicy).train()
    assert caught.value.where == "model.memory"
    assert sac(SeededWalk, {"model.critic": "none", "model.memory": "lstm"}, model=OwnPolicy).train().updates == 10


MEMORIES = {
    "gru": {"model.memory": "gru", "algorithm.sequence_length": 7, "algorithm.burn_in": 3, "algorithm.utd": 1.5},
    "window": {"model.memory": "window", "model.memory_window": 3, "algorithm.n_step": 2, "algorithm.num_envs": 2},
    "crossq": {"model.memory": "gru", "algorithm.critic_norm": "batch", "algorithm.critic_memory": "shared"},
    "tqc": {"model.memory": "lstm", "algorithm.quantiles": 5, "algorithm.drop_top": 1, "algorithm.sequence_length": 4},
}


@pytest.mark.parametrize("kind", ["gru", *(pytest.param(each, marks=pytest.mark.slow) for each in list(MEMORIES)[1:])])
def test_stopped_in_the_middle_it_goes_on_to_the_same_end(sac, whole_state, assert_same, kind):
    envs = {"gru": Carousel, "tqc": "Pendulum-v1", "crossq": SeededWalk}
    env = envs.get(kind, lambda: Diary(EXTRAS["choices and a box"]))
    values = MEMORIES[kind] | {"model.memory_size": 4, "model.hidden": [8], "algorithm.critic_hidden": [8, 8]}
    values |= {"algorithm.n_epochs": 5, "evaluation.n_episodes": 1, "model.normalize_observations": True}
    stopped = sac(env, values, callbacks={"bomb": bomb(at=23)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = sac(env, values, callbacks={"bomb": bomb(at=0)})
    whole.train()
    one, other = (whole_state(each.run_dir) for each in (stopped, whole))
    assert_same(one, other)


def test_the_policy_remembers_what_happened_while_another_one_acted(sac, monkeypatch):
    """Its first decision is made with the memory of the episode, whose first steps were random."""
    found, collect = [], ReplayCollector.collect

    def watched(collector):
        if not found:
            found.append(copy.deepcopy(collector.state()))
        return collect(collector)

    monkeypatch.setattr(ReplayCollector, "collect", watched)
    memory = {"model.memory": "gru", "algorithm.sequence_length": 4, "algorithm.burn_in": 3, "algorithm.num_envs": 3}
    context = sac(lambda: Diary({}), STILL | memory)
    context.train()
    pages, remembered = found[0]["env"]["observation"]["page"], found[0]["memory"]
    assert (pages[:, 1] > 4).any()
    for row, page in enumerate(pages):
        before = rows_until(page)
        state = context.policy.initial_state(1)
        for t in range(int(page[1])):
            _, state = context.policy.step({key: leaf[t : t + 1] for key, leaf in before.items()}, state)
        torch.testing.assert_close(remembered["policy/hidden"][row], state["policy/hidden"][0], rtol=1e-5, atol=1e-6)


def test_demonstrations_are_remembered_as_what_is_played(sac, record):
    """Recorded episodes are drawn in sequences, each after the first with what is remembered before it."""
    folder = record(SeededWalk(), 9)
    memory = {"model.memory": "gru", "algorithm.sequence_length": 4, "algorithm.burn_in": 3}
    values = STILL | memory | {"algorithm.initial_demonstrations": str(folder)}
    context = sac(SeededWalk, values, algorithm="sacfd")
    assert context.train().updates == 10
    policy, replay, number = context.policy, context.run.algorithm.kept["collector"].replay, 0
    index = replay.selector.index
    found, rows = index.sequences.read(0, 20), replay.read(0, len(replay))
    remembered = index.remembered(found["state"])["policy/policy/hidden"]
    steps = [
        rows["action/action"][first + burnt :][:n]
        for first, burnt, n in zip(*map(found.get, ("first", "burnt", "steps")), strict=True)
    ]
    for episode in load_trajectories(folder):
        state = policy.initial_state(1)
        for t in range(min(len(episode), 4 * (20 - number))):
            if t % 4 == 0:
                np.testing.assert_array_equal(steps[number], episode.actions["action"][t : t + 4])
                number += 1
            if (t + 3) % 4 == 0 and t + 3 < len(episode) and number < 20:  # the burn-in of the next segment begins
                wanted = state["policy/hidden"][0].detach().numpy()
                np.testing.assert_allclose(remembered[number], wanted, atol=1e-6)
            _, state = policy.step({"observation": torch.from_numpy(episode.obs["observation"][t : t + 1])}, state)
    assert number == 20
    assert found["burnt"].max() == 3
    with pytest.raises(ConfigError, match="recorded episodes need") as caught:
        sac(SeededWalk, values | {"algorithm.replay_buffer_size": 30}, algorithm="sacfd").train()
    assert caught.value.where == "algorithm.initial_demonstrations"
