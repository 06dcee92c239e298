"""Self-play: frozen policies act for the opponents, teach nothing, are counted, and are saved."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("pettingzoo")

from maze_pettingzoo.opponents import NOBODY, PoolAgent

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.envs.vector import Episode
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

OVERRIDES = {"evaluation.n_episodes": 0}

SPACE, CHOICES = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(5)
RPS = {"name": "pettingzoo", "id": "pettingzoo.classic:rps_v2", "kwargs": {"max_cycles": 6}}
SMALL = {"model.hidden": [8], "algorithm.n_rollout_steps": 5}
OPPONENT = {"self_play": {"name": "self_play", "opponents": ["player_1"], "latest": 0.4}}
OBS = {"observation": np.zeros((6, 2), np.float32)}


def always(policy, choice):
    """Make the policy choose one action."""
    ((_, _, head),) = policy.action_heads
    with torch.no_grad():
        head.linear.weight.zero_()
        head.linear.bias[:] = 50 * torch.nn.functional.one_hot(torch.tensor(choice), 5)


def pool_of(size=3):
    config = MlpConfig(name="mlp", hidden=[4])
    policy = MlpModel(config).build_policy(SPACE, CHOICES, config)
    agent = NetworkAgent(policy, SharedNoise(6, torch.Generator()))
    agent_rows = np.array([[False, True], [True, False], [False, True]])
    return policy, PoolAgent(agent, policy, agent_rows, size, seed=1)


def test_opponents_act_as_when_they_were_frozen_and_the_learner_as_now():
    policy, pool = pool_of()
    always(policy, 1)
    pool.begin(range(6))
    pool.freeze(1)
    always(policy, 4)
    assert pool.act(OBS).actions["action"].tolist() == [4] * 6  # the pool was empty when these episodes began
    pool.begin([0, 1, 2])  # one agent row of the second copy ends early: its episode goes on
    assert pool.act(OBS).actions["action"].tolist() == [4, 1, 4, 4, 4, 4]
    pool.begin([2, 3, 4, 5])
    choice = pool.act(OBS)
    assert choice.actions["action"].tolist() == [4, 1, 1, 4, 4, 1]
    assert choice.samples["action"].tolist() == [4, 1, 1, 4, 4, 1]


def test_the_pool_stays_spread_over_the_run_and_whoever_plays_ends_its_game():
    policy, pool = pool_of(size=3)
    for epoch in (0, 1):
        always(policy, epoch)
        pool.freeze(epoch)
    playing = set()
    while 1 not in playing:
        pool.begin(range(6))
        before = pool.act(OBS).actions["action"][[1, 2, 5]].tolist()
        playing = set(before)
    for epoch in (2, 3, 4):
        always(policy, epoch)
        pool.freeze(epoch)
    assert pool.act(OBS).actions["action"][[1, 2, 5]].tolist() == before
    met = set()
    for _ in range(40):
        pool.begin(range(6))
        met |= set(pool.act(OBS).actions["action"][[1, 2, 5]].tolist())
    assert met == {0, 2, 4}


def test_points_against_frozen_policies_are_counted_by_opponent():
    _, pool = pool_of()

    def over(copy, first, second):
        metrics = {"actor/a/return_mean": first, "actor/b/return_mean": second}
        return Episode(copy, 0, 0.0, 3, metrics)

    pool.begin(range(6))
    pool.freeze(7)
    for _ in range(2):
        pool.begin(range(6))
    assert pool.count([over(0, 1, 0), over(1, 1, 0), over(2, 1, 0)], "ab") == []  # games against itself
    assert pool.win_rates == {}
    # In copy 1 the opponent is the first agent.
    assert pool.count([over(1, 1, 0), over(0, 1, 0), over(2, 0, 0), over(0, 2, 1)], "ab") == [0, 1, 0.5, 1]
    assert pool.win_rates == {7: 2.5 / 4}


class Watch(Plugin):
    """Notes which agent rows teach, and what was recorded."""

    valid: list = []  # noqa: RUF012 — read by the test that empties it
    metrics: list = []  # noqa: RUF012

    @hookimpl
    def change_rollout(self, run, rollout):
        self.valid.append(rollout.valid.copy())

    @hookimpl
    def on_epoch_end(self, run, epoch):
        self.metrics.append(epoch.metrics)


def test_opponents_teach_nothing_and_win_rates_are_reported(quick):
    Watch.valid.clear()
    Watch.metrics.clear()
    run = quick(RPS, "ppo", SMALL, callbacks={**OPPONENT, "watch": Watch})
    run.train()
    for valid in Watch.valid:
        # The roles rotate with the copy; in the last one the policy plays both sides.
        assert valid.all(0).tolist() == [True, False, False, True, True, True]
        assert valid.any(0).tolist() == [True, False, False, True, True, True]
    for metrics in Watch.metrics:
        assert 0 <= metrics["self_play/win_rate"] <= 1


@pytest.mark.parametrize("memory", ["none", "gru", "window"])
def test_opponents_remember_what_they_saw_in_their_agent_row_and_nothing_else(memory):
    """What each of two frozen policies does in each agent row is compared with steps of that agent row alone."""
    config = MlpConfig(name="mlp", hidden=[4], memory=memory, memory_size=4, memory_window=3, temperature=1e-5)
    policy = MlpModel(config).build_policy(SPACE, CHOICES, config)
    agent_rows = np.array([[False, True], [True, False], [False, True]])
    pool = PoolAgent(NetworkAgent(policy, SharedNoise(6, torch.Generator())), policy, agent_rows, 3, seed=1)
    frozen = {}
    for epoch in (1, 2):
        for parameter in policy.parameters():
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(epoch))
        pool.freeze(epoch)
        frozen[epoch] = copy.deepcopy(policy)
    for parameter in policy.parameters():
        torch.nn.init.zeros_(parameter)
    rng, states, met = np.random.default_rng(0), {}, set()
    pool.begin(range(6))
    for row in range(6):
        states[row] = policy.initial_state(1)
    for step in range(40):
        obs = {"observation": rng.normal(size=(6, 2)).astype(np.float32)}
        chosen = pool.act(obs).actions["action"]
        waiting = np.flatnonzero(rng.random(6) < 0.4)
        opponents = pool.state()["self_play"]["opponents"]
        for row in np.flatnonzero(agent_rows.reshape(-1)).tolist():
            opponent = int(opponents[row // 2])
            met.add(opponent)
            seen = {"observation": torch.from_numpy(obs["observation"][[row]])}
            with torch.no_grad():
                if memory == "none":
                    alone, after = frozen[opponent].distribution(seen), {}
                else:
                    alone, after = frozen[opponent].step(seen, states[row])
            assert chosen[row] == alone.mode()["action"].item(), (step, row)
            states[row] = states[row] if row in waiting else after
        pool.wait(waiting)
        if step % 7 == 6:
            ended = [2, 3] if step % 2 else [0, 1, 4, 5]
            pool.begin(ended)
            states |= {row: policy.initial_state(1) for row in ended}
    assert met == {1, 2}


TURNS = {"name": "pettingzoo", "id": "pettingzoo.classic:tictactoe_v3"}
SECOND = {"self_play": {"name": "self_play", "opponents": ["player_2"], "latest": 0.4}}


@pytest.mark.parametrize(("env", "opponent", "memory"), [(TURNS, SECOND, "lstm")])
def test_a_resumed_run_has_the_same_pool_and_goes_on_exactly(quick, whole_state, assert_same, env, opponent, memory):
    small = SMALL | {"model.normalize_observations": True, "model.memory": memory}
    whole = quick(env, "ppo", small | {"algorithm.n_epochs": 3}, callbacks=opponent)
    whole.train()
    half = quick(env, "ppo", small, callbacks=opponent)
    half.train()
    saved = whole_state(half.run_dir)["algorithm"]["collector"]["self_play"]
    assert set(saved["pool"]) == {"0", "1", "2"}
    assert any(each != NOBODY for each in saved["opponents"])
    remembered = saved["memory"].items()
    assert bool(remembered) is (memory != "none")
    quick(env, "ppo", small | {"algorithm.n_epochs": 3}, callbacks=opponent, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


@pytest.mark.parametrize(
    ("env", "algorithm", "opponents", "message"),
    [
        (RPS, "ppo", ["player_7"], "callbacks.self_play.opponents: there is no agent 'player_7'"),
        (RPS, "ppo", ["player_0", "player_1"], "all agents are opponents"),
        ("CartPole-v1", "ppo", ["player_1"], "Agents of this environment: a single one"),
        (RPS, "impala", ["player_1"], "self_play works by its hook wrap_agent, which impala never calls"),
    ],
)
def test_what_cannot_be_played_is_refused_before_the_first_step(quick, env, algorithm, opponents, message):
    with pytest.raises(ConfigError, match=message):
        _ = quick(env, algorithm, callbacks={"self_play": {"name": "self_play", "opponents": opponents}}).run
