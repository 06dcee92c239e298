"""Rollouts of several agents: rows without gaps, open transitions carried over, and advantages as by hand."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_actors.agents import Round
from maze_actors.vector_env import AgentsVectorEnv
from maze_onpolicy.collect.sampler import Sampler
from maze_onpolicy.data.discounts import carried_rows
from maze_onpolicy.learn.advantages import advantage_rows

from maze_core.base.errors import RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.network import NetworkAgent
from maze_core.envs.spaces import flatten_space
from maze_core.models.building import build_policy
from maze_core.models.mlp import MlpConfig, MlpModel
from tests.agents import Crowd, Script, in_turns

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)
GAMMA, LAMBDA = 0.9, 0.8


def o(value):
    return np.array([value], np.float32)


def sampler_of(make, steps, copies=1, **model):
    env = Logged(make, copies, agent_ids="groups" in model)
    config = MlpConfig(name="mlp", hidden=[4], orthogonal_init=False, **model)
    torch.manual_seed(1)
    policy = build_policy(MlpModel(config).build_policy, env.observation_space, env.action_space, config)
    network = NetworkAgent.sampling(policy, env.num_envs, torch.Generator().manual_seed(5))
    return env, Learning(network, env, steps, SEEDS)


class Learning(Sampler):
    """A sampler whose policy can change between rollouts."""

    policy = property(lambda self: self._policy)

    def learn(self):
        with torch.no_grad():
            for parameter in self.policy.parameters():
                parameter += 0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7))


class Logged(AgentsVectorEnv):
    """Keeps all that was observed, done and returned."""

    def reset(self, seeds, out):
        super().reset(seeds, out)
        self._note(out)

    def restore(self, seeds, state, out):
        super().restore(seeds, state, out)
        self._note(out)

    def _note(self, out):
        self.log, self._seen = [], {key: leaf.copy() for key, leaf in out.items()}

    def step(self, actions, out):
        taken = {key: leaf.copy() for key, leaf in actions.items()}
        result = super().step(actions, out)
        self.log.append((self._seen, taken, result))
        self._seen = {key: leaf.copy() for key, leaf in out.items()}
        return result


def expected(log, agent_row):
    """The transitions of an agent from the log, one after the other: [observation, action, reward, end, next one]."""
    closed, opened = [], None
    for seen, actions, result in log:
        if result.valid[agent_row]:
            if opened:
                closed.append([*opened, "", seen["x"][agent_row]])
            opened = [seen["x"][agent_row], actions["action"][agent_row], 0.0]
        if opened:
            opened[2] += result.reward[agent_row]
            if agent_row in result.final_indices:
                end = "terminated" if result.terminated[agent_row] else "truncated"
                last = result.final_obs["x"][list(result.final_indices).index(agent_row)]
                closed.append([*opened, end, last])
                opened = None
    return closed


def found(rollout, agent_row):
    """The transitions of an agent row in a rollout, in the same form."""
    steps = len(rollout.rewards)
    cut = {(t, i): leaf["x"][k] for t, indices, leaf in rollout.truncations for k, i in enumerate(indices)}
    rows = []
    count = int(rollout.valid[:, agent_row].sum())
    assert rollout.valid[:count, agent_row].all(), "a gap"
    for t in range(count):
        end = (
            "terminated" if rollout.terminated[t, agent_row] else "truncated" if rollout.truncated[t, agent_row] else ""
        )
        following = cut.get((t, agent_row), rollout.obs["x"][t + 1, agent_row])
        assert end or rollout.continues[t, agent_row] or t + 1 in (count, steps)
        assert end != "truncated" or (t, agent_row) in cut
        rows.append(
            [
                rollout.obs["x"][t, agent_row].copy(),
                rollout.actions["action"][t, agent_row],
                rollout.rewards[t, agent_row],
                end,
                following.copy(),
            ]
        )
    return rows


@pytest.mark.parametrize("steps", [1, 2, 7, 60])
def test_every_transition_is_in_exactly_one_rollout_with_all_its_rewards(steps):
    env, sampler = sampler_of(lambda _: Crowd(), steps, copies=2)
    rows: list[list] = [[] for _ in range(6)]
    for _ in range(-(-180 // steps)):
        rollout = sampler.collect()
        assert np.isfinite(rollout.rewards).all()
        for agent_row in range(6):
            rows[agent_row] += found(rollout, agent_row)
    ends = set()
    for agent_row in range(6):
        wanted = expected(env.log, agent_row)
        # The last one may be known to be closed only when the agent row acts again.
        assert len(wanted) <= len(rows[agent_row]) <= len(wanted) + 1
        for mine, theirs in zip(rows[agent_row], wanted, strict=False):
            np.testing.assert_array_equal(mine[0], theirs[0])
            assert mine[1] == theirs[1]
            assert mine[2] == pytest.approx(theirs[2])
            assert mine[3] == theirs[3]
            if mine[3] != "terminated":
                np.testing.assert_array_equal(mine[4], theirs[4])
            ends.add(mine[3])
    assert ends == {"", "terminated", "truncated"}


def test_unused_rows_allow_the_actions_that_they_hold():
    """An algorithm that computes log-probabilities of all rows, as IMPALA does, must get numbers."""
    _, sampler = sampler_of(lambda _: Crowd(), 9, copies=2)
    for _ in range(4):
        rollout = sampler.collect()
        mask, action = rollout.obs["action_mask"][:-1], rollout.actions["action"]
        assert np.take_along_axis(mask, action[..., None], -1).all()
        assert not rollout.rewards[~rollout.valid].any()


@pytest.mark.parametrize("rollouts", [1, 2, 5])
def test_open_transitions_are_saved(rollouts):
    """A sampler that is restored between two rollouts goes on as one that was not interrupted."""
    _, first = sampler_of(lambda _: Crowd(), 4, copies=2)
    for _ in range(rollouts):
        first.collect()
    while not (state := first.state())["open"].any():
        first.collect()
    _, second = sampler_of(lambda _: Crowd(), 4, copies=2)
    second.load_state(state)
    for _ in range(6):
        first.learn()
        second.policy.load_state_dict(first.policy.state_dict())
        one, two = first.collect(), second.collect()
        for name in ("rewards", "terminated", "truncated", "valid", "carried"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        for key in one.obs:
            np.testing.assert_array_equal(one.obs[key], two.obs[key])
        np.testing.assert_array_equal(one.actions["action"][one.valid], two.actions["action"][two.valid])
        assert one.episodes == two.episodes


def chosen(env, policies, steps):
    """The rollout and the log-probability with which each agent row chose each of its actions, in order of time."""
    found = [[] for _ in range(env.num_envs)]
    states = [policies[0].initial_state(1) if policies[0].remembers else None for _ in found]
    for t, (seen, actions, result) in enumerate(env.log):
        policy = policies[t // steps]
        for agent_row in range(env.num_envs):
            if result.valid[agent_row]:
                row = {key: torch.from_numpy(leaf[agent_row : agent_row + 1]) for key, leaf in seen.items()}
                taken = {key: torch.from_numpy(leaf[agent_row : agent_row + 1]) for key, leaf in actions.items()}
                with torch.no_grad():
                    if states[agent_row] is None:
                        distribution = policy.distribution(row)
                    else:
                        distribution, states[agent_row] = policy.step(row, states[agent_row])
                found[agent_row].append((t // steps, distribution.log_prob(taken).item()))
            if result.terminated[agent_row] | result.truncated[agent_row] and states[agent_row] is not None:
                states[agent_row] = policy.initial_state(1)
    return found


ONCE, SEVEN = (1, 36), (7, 9)
"""Steps of a rollout, and how many of them."""


@pytest.mark.parametrize(
    ("make", "model", "size"),
    [
        (lambda _: in_turns(2), {}, ONCE),
        (lambda _: in_turns(3), {}, SEVEN),
        (lambda _: in_turns(5), {"groups": "per_actor"}, ONCE),
        (lambda _: in_turns(3), {"memory": "gru", "memory_size": 3}, SEVEN),
        (lambda _: Crowd(), {}, ONCE),  # masks, ends, several at a time
        (lambda _: Crowd(), {"groups": "per_actor", "memory": "lstm", "memory_size": 3}, SEVEN),
    ],
)
def test_actions_that_are_carried_over_keep_the_log_probability_they_were_chosen_with(make, model, size):
    """However many rollouts they are open for; the parameters change after each."""
    steps, rollouts = size
    env, sampler = sampler_of(make, steps, copies=2, **model)
    policies, rows = [], [[] for _ in range(env.num_envs)]
    for number in range(rollouts):
        policies.append(copy.deepcopy(sampler.policy))
        rollout = sampler.collect()
        carried = np.full(rollout.rewards.shape, np.nan) if (c := carried_rows(rollout)) is None else c
        batch, _ = advantage_rows(sampler.policy, rollout, GAMMA, LAMBDA, torch.device("cpu"), log_probs=True)
        own = carried[rollout.valid & ~np.isnan(carried)]
        assert np.isin(own, batch.extra["log_prob"].numpy()).all()  # as what PPO learns from
        assert rollout.valid[~np.isnan(carried)].sum() == len(own)
        for agent_row in range(env.num_envs):
            rows[agent_row] += [(number, value) for value in carried[rollout.valid[:, agent_row], agent_row].tolist()]
        sampler.learn()
    ages = set()
    for mine, theirs in zip(rows, chosen(env, policies, steps), strict=True):
        for (learnt, found), (acted, wanted) in zip(mine, theirs, strict=False):
            ages.add(learnt - acted)
            assert np.isnan(found) if learnt == acted else found == pytest.approx(wanted, abs=1e-5)
    assert max(ages) >= 1


class Hundredfold:
    """A critic that returns a hundred times the observation."""

    normalizer = None

    def value(self, obs, **_):
        return 100 * obs["observation" if "observation" in obs else "a"][:, 0]


def advantages(turns, steps, rollouts=1, elapsed="turn"):
    """The advantages [T, N] of each rollout of a script, nan where a row is not used, and the rollouts' rewards."""

    def make(_):
        env = Script(turns)
        env.elapsed = elapsed
        return env

    _, sampler = sampler_of(make, steps)
    tables = []
    for _ in range(rollouts):
        rollout = sampler.collect()
        batch, _ = advantage_rows(Hundredfold(), rollout, GAMMA, LAMBDA, torch.device("cpu"))
        table = np.full(rollout.rewards.shape, np.nan)
        table[rollout.valid] = batch.extra["advantage"].numpy()
        tables.append(table)
    return tables


TURNS = [
    Round({"a": o(1)}),
    Round({"b": o(2)}, {"a": 5}),
    Round({"a": o(3)}, {"a": 7, "b": 11}),  # a is paid while it waits
    Round({"b": o(4)}, {"a": 13}),
    Round({}, {"a": 17, "b": 19}, {"a": o(6), "b": o(7)}),  # b's action ends the game for a, who waits
]


def test_two_agents_with_waiting_rows_have_the_advantages_computed_by_hand():
    (table,) = advantages(TURNS, steps=4)
    last_a = (13 + 17) - 300
    last_b = 19 - 400
    first_a = (5 + 7) + GAMMA * 300 - 100
    first_b = 11 + GAMMA * 400 - 200
    wanted = [
        [first_a + GAMMA * LAMBDA * last_a, first_b + GAMMA * LAMBDA * last_b],
        [last_a, last_b],
        [np.nan, np.nan],
        [np.nan, np.nan],
    ]
    np.testing.assert_allclose(table, wanted, rtol=1e-5)


def test_a_rollout_that_ends_while_an_agent_waits_bootstraps_its_last_closed_row():
    one, two = advantages(TURNS, steps=3, rollouts=2)
    first_a = (5 + 7) + GAMMA * 300 - 100  # a's second transition is open
    first_b = 11 + GAMMA * 400 - 200  # b is about to act: its first one is closed
    np.testing.assert_allclose(one, [[first_a, first_b], [np.nan] * 2, [np.nan] * 2], rtol=1e-5)
    # The open one is row 0 of the next rollout; then a new game begins.
    again_a, again_b = 12 + GAMMA * 300 - 100, np.nan
    last_a, last_b = 30 - 300, 19 - 400
    np.testing.assert_allclose(two, [[last_a, last_b], [again_a, again_b], [np.nan] * 2], rtol=1e-5)


def test_a_dead_agent_is_paid_to_the_end_and_learns_nothing_from_waiting():
    turns = [
        Round({"a": o(1), "b": o(2)}),
        Round({"b": o(3)}, {"a": -1, "b": 1}, {"a": o(9)}),
        Round({"b": o(4)}, {"b": 2}),
        Round({}, {"b": 3}, {"b": o(5)}),
    ]
    (table,) = advantages(turns, steps=3)
    third = 3 - 400
    second = 2 + GAMMA * 400 - 300 + GAMMA * LAMBDA * third
    first = 1 + GAMMA * 300 - 200 + GAMMA * LAMBDA * second
    np.testing.assert_allclose(table, [[-1 - 100, first], [np.nan, second], [np.nan, third]], rtol=1e-5)


def test_the_truncation_of_one_agent_is_bootstrapped_and_ends_nobody_else():
    turns = [
        Round({"a": o(1), "b": o(2)}),
        Round({"b": o(3)}, {"a": -1, "b": 1}, truncated={"a": o(9)}),
        Round({}, {"b": 3}, {"b": o(5)}),
    ]
    (table,) = advantages(turns, steps=2)
    second = 3 - 300
    first = 1 + GAMMA * 300 - 200 + GAMMA * LAMBDA * second
    np.testing.assert_allclose(table, [[-1 + GAMMA * 900 - 100, first], [np.nan, second]], rtol=1e-5)


def test_rounds_discount_what_follows_by_those_that_lie_between_an_agents_actions():
    (table,) = advantages(TURNS, steps=4, elapsed="round")
    last_a, last_b = 30 - 300, 19 - 400
    first_a = 12 + GAMMA**2 * 300 - 100 + GAMMA**2 * LAMBDA * last_a
    first_b = 11 + GAMMA**2 * 400 - 200 + GAMMA**2 * LAMBDA * last_b
    np.testing.assert_allclose(table, [[first_a, first_b], [last_a, last_b], [np.nan] * 2, [np.nan] * 2], rtol=1e-5)


def test_rounds_count_to_the_end_of_an_agent_that_was_cut_while_it_waited():
    turns = [
        Round({"a": o(1), "b": o(2)}),
        Round({"b": o(3)}, {"a": -1, "b": 1}),
        Round({"b": o(4)}, {"a": 5, "b": 2}),
        Round({"b": o(6)}, {"b": 2}, truncated={"a": o(9)}),
        Round({}, {"b": 3}, {"b": o(5)}),
    ]
    for steps, rollouts in ((4, 1), (2, 2)):  # in the second, a's transition is open when the rollout ends
        table = advantages(turns, steps, rollouts, "round")[-1]
        assert table[0, 0] == pytest.approx(-1 + 5 + GAMMA**3 * 900 - 100)
    fourth = 3 - 600
    third = 2 + GAMMA * 600 - 400 + GAMMA * LAMBDA * fourth
    np.testing.assert_allclose(table[:, 1], [third, fourth], rtol=1e-5)


def test_an_environment_that_leaves_no_choice_is_reported_as_that():
    class Blocked(Script):
        def __init__(self):
            blocked = {"x": o(1), "action_mask": np.zeros(2, np.int8)}
            super().__init__([Round({"a": blocked}), Round({"a": blocked})], ("a",))
            box = self.observation_spaces["a"]
            self.observation_spaces = {"a": spaces.Dict({"x": box, "action_mask": spaces.MultiBinary(2)})}

    assert "action_mask" in flatten_space(Blocked().observation_spaces["a"], "observation")
    _, sampler = sampler_of(lambda _: Blocked(), 4)
    with pytest.raises(RunError, match="forbids every choice"):
        sampler.collect()


def test_a_rollout_of_waiting_rows_alone_is_empty():
    _, sampler = sampler_of(lambda _: Script(TURNS), 1)
    rollout = sampler.collect()
    assert not rollout.valid.any()
    batch, _ = advantage_rows(Hundredfold(), rollout, GAMMA, LAMBDA, torch.device("cpu"))
    assert len(batch) == 0
