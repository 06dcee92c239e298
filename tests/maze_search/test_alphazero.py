"""AlphaZero: the search by hand, what it learns from, and runs that repeat exactly."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_actors.agents import Round
from maze_planning.planner import Decision
from maze_planning.simulator import Simulators
from maze_search.config import AlphaZeroConfig
from maze_search.search import Node, Search, SearchTree

from maze_core.base.errors import ConfigError
from maze_core.plugins.hookspecs import hookimpl
from tests.agents import BoxesSource, TeamSource
from tests.maze_marl.games import TwoStepsSource
from tests.maze_search.games import STONES, MoodySource, Nim, NimSource

SMALL = {
    "model.hidden": [16],
    "algorithm.num_envs": 2,
    "algorithm.n_rollout_steps": 4,
    "algorithm.n_simulations": 8,
    "algorithm.num_batches_per_iter": 2,
    "algorithm.batch_size": 16,
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 60,
}


def decisions(run, lefts):
    """A decision of the first player for each number of stones."""
    simulators = Simulators(run.env_builder("evaluation"))
    found = []
    for row, left in enumerate(lefts):
        simulator = simulators.episode(row)
        simulator.begin(left - 3)
        assert simulator.env.env.left == left
        found.append(Decision(row, simulator, 0, np.random.default_rng(row)))
    return found


def searched(run, lefts, **parameters):
    config = run.algorithm.config.model_copy(update=parameters)
    search, asked = Search(run.policy, config, explores=False), decisions(run, lefts)
    with torch.no_grad():
        actions = search.choose(asked, {"action": np.zeros(len(asked), np.int64)})["action"]
    return actions, [search.shares[row] for row in range(len(asked))]


def test_a_long_search_plays_perfectly_whatever_the_network_thinks(quick):
    lefts = [left for left in range(3, STONES + 1) if left % 4]
    actions, shares = searched(quick(NimSource, "alphazero", SMALL).run, lefts, eval_simulations=300)
    assert [(left - action - 1) % 4 for left, action in zip(lefts, actions, strict=True)] == [0] * len(lefts)
    assert all(share.sum() == pytest.approx(1) for share in shares)


def test_decisions_do_not_depend_on_those_beside_them(quick):
    run = quick(NimSource, "alphazero", SMALL).run
    together, shares = searched(run, [3, 5, 6, 8])
    for place, left in enumerate([3, 5, 6, 8]):
        action, share = searched(run, [left])
        assert action[0] == together[place]
        np.testing.assert_array_equal(share[0], shares[place])


def test_the_score_and_what_is_backed_up_are_those_of_the_equations(quick):
    """PUCT: Q + c P sqrt(N) / (1 + n), with returns from -1 to 1 as 0 to 1; a new action counts as the position."""
    run = quick(NimSource, "alphazero", SMALL).run
    config = AlphaZeroConfig(name="alphazero", exploration=2.0, gamma=0.5)
    (decision,) = decisions(run, [3])
    tree = SearchTree(Node(decision.simulator, np.zeros(2)), config)
    prior, everything = np.array([0.5, 0.3, 0.2]), np.ones(3, bool)
    tree.root.expand(prior, 0.2, everything)

    def best():
        n = tree.root.visits
        q = np.where(n > 0, tree.root.total / np.maximum(n, 1), 0.2)
        return ((q + 1) / 2 + 2 * prior * np.sqrt(1 + n.sum()) / (1 + n)).argmax()

    path, first = tree.descend(), 0
    assert path[1] is tree.root.children[first]
    assert path[1].agent_row == 1
    path[1].expand(np.array([0.6, 0.4, 0.0]), 0.4, np.array([True, True, False]))
    tree.back_up(path)
    assert tree.root.total.tolist() == [-0.4, 0, 0]  # what the other expects, at its own turn, discounted there
    for _ in range(12):
        wanted = best()
        path = tree.descend()
        assert path[1] is tree.root.children[wanted]
        if path[-1].agent_row >= 0:
            path[-1].expand(np.array([1.0, 0.0, 0.0]), 0.4, np.array([True, False, False]))
        tree.back_up(path)
    assert tree.root.visits.sum() == 13
    third = tree.root.children[2]  # takes all three: won at once
    assert third.agent_row == -1
    assert tree.root.total[2] / tree.root.visits[2] == 1
    assert not tree.root.children[0].visits[2]  # forbidden


class Step(gymnasium.Env):
    """A single step: action 0 brings a promising place, action 1 a little reward. A time limit may end it."""

    observation_space, action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, cut):
        self.cut = cut

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.array([1 - action], np.float32), 0.5 * float(action), not self.cut, self.cut, {}


class CutNim(Nim):
    """Cut after one move: each is then told how it stands."""

    def step(self, actions):
        super().step(actions)
        return Round({}, truncated=dict.fromkeys(self.agents, self._look()))


class CutNimSource(NimSource):
    """An env source of those."""

    @hookimpl
    def make_agents_env(self, config, seed, index):
        return CutNim()


@pytest.mark.parametrize(("cut", "found"), [(True, 7.2), (False, 0)])
def test_what_a_time_limit_cuts_off_is_expected_as_the_network_does(quick, monkeypatch, cut, found):
    """As in what is learnt from: the value of the last observation; 0 only where the task itself is over."""
    run = quick(lambda: Step(cut), "alphazero", SMALL | {"algorithm.gamma": 0.9}).run
    monkeypatch.setattr(run.policy, "value", lambda obs: 8 * obs["observation"][:, 0])
    simulator = Simulators(run.env_builder("evaluation")).episode(0)
    simulator.begin(1)
    search, roots = Search(run.policy, run.algorithm.config, explores=False), []
    monkeypatch.setattr(search, "_chosen", lambda decision, root: roots.append(root) or 0)
    with torch.no_grad():
        search.choose([Decision(0, simulator, 0, np.random.default_rng(0))], {})
    (root,) = roots
    assert root.total[0] / root.visits[0] == pytest.approx(found)


def test_in_a_game_each_expects_what_it_sees_itself_beyond_a_time_limit(quick, monkeypatch):
    run = quick(CutNimSource, "alphazero", SMALL | {"algorithm.gamma": 0.5}).run
    monkeypatch.setattr(run.policy, "value", lambda obs: obs["left"].argmax(-1).float())
    search, (decision,), roots = Search(run.policy, run.algorithm.config, explores=False), decisions(run, [5]), []
    monkeypatch.setattr(search, "_chosen", lambda decision, root: roots.append(root) or 0)
    with torch.no_grad():
        search.choose([decision], {})
    assert (roots[0].total / roots[0].visits).tolist() == [2, 1.5, 1]  # half of the stones that are left


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_positions_have_the_visits_of_the_search_and_the_outcome_of_the_game(quick, gamma):
    context = quick(NimSource, "alphazero", SMALL | {"algorithm.gamma": gamma})
    play = context.run.algorithm.kept["self_play"]
    assert play.warm_up()
    assert play.state()["written"] >= 20
    batch = play.sample(500)
    left, visits = batch.obs["left"].argmax(-1), batch.extra["visits"]
    torch.testing.assert_close(visits.sum(-1), torch.ones(500))
    assert (visits[batch.obs["action_mask"] == 0] == 0).all()
    outcome = batch.extra["outcome"]
    assert set(outcome.abs().tolist()) <= {gamma**moves for moves in range(STONES)}
    assert (outcome > 0).any()
    assert (outcome < 0).any()
    # Who faces one stone takes it and wins at once.
    assert (outcome[left == 1] == 1).all()


def test_the_loss_is_that_of_the_equations(quick):
    context = quick(NimSource, "alphazero", SMALL | {"algorithm.value_loss_coef": 0.5, "algorithm.weight_decay": 0.01})
    play, policy = context.run.algorithm.kept["self_play"], context.policy
    play.warm_up()
    batch = play.sample(20)
    total = 0.0
    for row in range(20):
        obs = {key: leaf[row : row + 1] for key, leaf in batch.obs.items()}
        distribution, value = policy(obs)
        chances = distribution.parts["action"].logits.softmax(-1)[0]
        allowed = batch.obs["action_mask"][row].bool()
        total = total - (batch.extra["visits"][row][allowed] * chances[allowed].log()).sum() / 20
        total = total + 0.5 * (value[0] - batch.extra["outcome"][row]) ** 2 / 20
    squares = sum(each.detach().square().sum() for each in policy.parameters())
    torch.testing.assert_close(context.run.algorithm.compute_loss(policy, batch).total, total + 0.01 * squares)


def test_who_explores_adds_noise_and_draws_the_first_moves_alone(quick):
    run = quick(NimSource, "alphazero", SMALL).run
    config = run.algorithm.config.model_copy(update={"sampled_moves": 1, "n_simulations": 30})
    search = Search(run.policy, config, explores=True)
    (asked,) = decisions(run, [6])
    with torch.no_grad():
        drawn = {int(search.choose([asked], {})["action"][0]) for _ in range(30)}
        asked.simulator.taken.append(0)  # no longer the first move
        later = {int(search.choose([asked], {})["action"][0]) for _ in range(30)}
    assert len(drawn) > 1
    assert later == {1}
    shorter = Search(run.policy, config.model_copy(update={"eval_simulations": 1}), explores=True)
    with torch.no_grad():
        shorter.choose([asked], {})
    assert shorter.shares[0].max() < 1  # a single visit would have the whole share
    root = Node(asked.simulator, np.zeros(2))
    root.expand(np.array([0.5, 0.5, 0.0]), 0.0, np.array([True, True, False]))
    search._add_noise(root, asked.rng)
    assert root.prior[2] == 0
    assert root.prior.sum() == pytest.approx(1)
    assert root.prior[0] != 0.5


def test_whoever_acts_with_a_saved_run_searches_alike(quick):
    context = quick(NimSource, "alphazero", SMALL)
    context.train()
    env = context.make_env()
    agents, alone = context.agents(env=env), context.agents(look_ahead=False)
    round_ = env.reset(seed=0)
    while round_.acting:
        ((name, seen),) = round_.acting.items()
        taken = agents.act(name, seen)
        with torch.no_grad():
            obs = {key: torch.from_numpy(np.asarray(leaf)[None]) for key, leaf in seen.items()}
            assert alone.act(name, seen) == context.policy.distribution(obs).mode()["action"].item()
        left = int(seen["left"].argmax())
        assert taken == searched(context.run, [left])[0][0] if left > 2 else True
        round_ = env.step({name: taken})
    first, again = (
        {key: value for key, value in context.evaluate().items() if not key.startswith("time/")} for _ in range(2)
    )
    assert first == again


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(goes_on_exactly):
    same = SMALL | {
        "algorithm.epoch_length": 2,
        "algorithm.n_epochs": 4,
        "evaluation.n_episodes": 1,
        "env.max_episode_steps": 20,
    }
    goes_on_exactly("CartPole-v1", "alphazero", same)


def test_games_resume_exactly_in_the_middle(quick, whole_state, assert_same):
    more = SMALL | {"algorithm.n_rollout_steps": 1, "model.normalize_observations": True}
    whole = quick(NimSource, "alphazero", more | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(NimSource, "alphazero", more)
    half.train()
    quick(NimSource, "alphazero", more | {"algorithm.n_epochs": 3}, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


@pytest.mark.parametrize(
    ("env", "more", "message"),
    [
        (
            TwoStepsSource,
            {},
            "env: planning needs agents that act in turns, and left and right act at the same time",
        ),
        (TeamSource, {}, "env: alphazero plays alone or in games of two, and 3 agents act in this environment"),
        (BoxesSource, {}, "algorithm: alphazero supports actions of Discrete"),
        ("Pendulum-v1", {}, "algorithm: alphazero supports actions of Discrete"),
        (MoodySource, {}, "env: nobody can look ahead in .*, whose environments cannot be copied"),
        (NimSource, {"model.memory": "gru"}, "model.memory: alphazero does not train policies with memory"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_line(quick, env, more, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        quick(env, "alphazero", SMALL | more).train()
