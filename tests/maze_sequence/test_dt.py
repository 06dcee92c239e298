"""The Decision Transformer: acting is what was learnt, with the rewards it hears; refusals; exact resumes."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_export.export import export_policy
from maze_serve.json_values import to_json
from maze_view.insight import Insight, insight

from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.tree import map_tree, take_rows
from maze_core.data.batch import to_tensors
from maze_core.run.context import RunContext
from tests.maze_serve.asked import app_of, ask
from tests.recorded import BOX, OBSERVATION

TINY = {
    "algorithm.epoch_length": 4,
    "algorithm.batch_size": 20,
    "algorithm.context": 4,
    "algorithm.size": 8,
    "algorithm.heads": 2,
    "algorithm.layers": 2,
    "model.hidden": [8],
}
KINDS = spaces.Dict({"push": BOX, "gear": spaces.Discrete(3), "lamps": spaces.MultiBinary(2)})


class Paid(SpacesEnv):
    """Pays what was done, for as many steps as its seed says."""

    def reset(self, *, seed=None, options=None):
        self.taken = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.taken += 1
        obs, *_ = super().step(action)
        return obs, float(np.sum(action)), False, self.taken == 7, {}


def paid():
    return Paid(spaces.Box(-1, 1, (3,), np.float32), BOX)  # a space of its own: the environment seeds it


def scores(context):
    return {name: value for name, value in context.evaluate().items() if not name.startswith("time/")}


def sequence(quick, folder, env=paid, more=None, **parts):
    values = TINY | {"algorithm.dataset": str(folder), "algorithm.n_rollout_steps": None} | (more or {})
    return quick(env, "dt", {key: value for key, value in values.items() if value is not None}, **parts)


@pytest.fixture
def quick(quick, monkeypatch):
    """`quick` for an algorithm that collects no rollouts."""
    from tests import conftest

    monkeypatch.delitem(conftest.QUICK, "algorithm.n_rollout_steps")
    return quick


@pytest.mark.parametrize("context", [1, 4])
@pytest.mark.parametrize("space", [BOX, KINDS], ids=["box", "several"])
def test_step_by_step_it_acts_as_it_learnt_from_whole_stretches(quick, record, space, context):
    """A recorded episode, replayed: observations, what was done, and what was paid for it."""
    env = lambda: SpacesEnv(OBSERVATION, space)  # noqa: E731
    run = sequence(quick, record(OBSERVATION, space, [9, 5]), env, {"algorithm.context": context}).run
    plugin, policy = run.algorithm, run.policy
    episode = plugin._data[0]
    policy.context.target.fill_(float(episode.rewards.sum()))
    state = policy.initial_state(1)
    for step in range(9):
        distribution, state = policy.step(to_tensors(take_rows(episode.obs, [step])), state)
        batch = plugin._stretches(np.array([step]))
        learnt = policy.distribution(batch.obs, batch.sequences)
        for key, leaf in distribution.mode().items():
            torch.testing.assert_close(leaf[0], learnt.mode()[key][-1], rtol=1e-4, atol=1e-5)
        done = to_tensors(map_tree(np.array, take_rows(episode.actions, [step])))
        state = policy.heard(state, done, torch.tensor([episode.rewards[step]]))
    assert batch.extra["return_to_go"][-1] == pytest.approx(episode.rewards[-1], abs=1e-5)


def test_no_step_sees_what_comes_after_it_and_each_sees_what_was_before(quick, record):
    run = sequence(quick, record(OBSERVATION, BOX, [9, 5])).run
    batch = run.algorithm._stretches(np.array([3]))
    before = run.policy.distribution(batch.obs, batch.sequences).mode()["action"]
    for leaf in ("acted", "wanted"):
        state = {**batch.sequences.state}
        state[f"policy/{leaf}"] = state[f"policy/{leaf}"].clone()
        state[f"policy/{leaf}"][:, 2] += 1
        batch.sequences.state, kept = state, batch.sequences.state
        after = run.policy.distribution(batch.obs, batch.sequences).mode()["action"]
        batch.sequences.state = kept
        first = 3 if leaf == "acted" else 2  # what was done in a step, its own decision does not see
        torch.testing.assert_close(after[:first], before[:first])  # some processors round by what lies beside it
        assert not torch.isclose(after[first:], before[first:]).all()


def test_evaluations_rollouts_and_agents_tell_it_what_was_done_and_paid(quick, record):
    """The return that is left falls by what was paid, in every way to act, also for environments on workers."""
    folder = record(OBSERVATION, BOX)
    context = sequence(quick, folder, more={"evaluation.n_episodes": 5, "evaluation.num_envs": 2})
    context.train()
    found = scores(context)
    heard, policy = [], context.policy
    original = policy.heard
    policy.heard = lambda state, actions, rewards: (
        heard.append((actions["action"].clone(), rewards.clone())) or original(state, actions, rewards)
    )
    assert scores(context) == found
    actions, rewards = (torch.cat(each) for each in zip(*heard, strict=True))
    executed = actions.clamp(torch.as_tensor(BOX.low), torch.as_tensor(BOX.high))
    torch.testing.assert_close(executed.sum(1), rewards, rtol=1e-4, atol=1e-5)
    workers = sequence(quick, folder, more={"evaluation.n_episodes": 5, "evaluation.num_envs": 2}, runner="local")
    workers.train()
    assert scores(workers) == found

    env, agent = paid(), context.agent()
    observation, _ = env.reset(seed=3)
    agent.reset()
    first, reward = agent.act(observation), None
    for _ in range(5):
        observation, reward, *_ = env.step(first if reward is None else agent.act(observation, reward))
    left = agent._agent.memory.state()["policy/left"].item()
    with pytest.raises(ConfigError, match=r"what its last action was paid.*\n.*agent\.act\(observation, reward\)"):
        agent.act(observation)
    assert left != policy.initial_state(1)["policy/left"].item()
    agent.reset()
    assert np.array_equal(agent.act(paid().reset(seed=3)[0]), first)


def test_what_takes_no_rewards_says_so(quick, record, tmp_path):
    context = sequence(quick, record(OBSERVATION, BOX))
    context.train(1)
    with pytest.raises(ConfigError, match="past actions and rewards, too, which an exported file does not take"):
        export_policy(context.run, tmp_path / "a.pt2")
    assert insight(context.policy, context.run.algorithm._data[0]) == Insight()


def test_a_higher_return_is_reached_when_it_is_asked_for(quick, record):
    """A choice is paid at once: half of the recorded ones are wrong, and BC would be, too."""
    observation, action = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)

    class Choosing(SpacesEnv):
        def step(self, choice):
            obs, *_ = super().step(choice)
            self.taken = getattr(self, "taken", 0) + 1
            return obs, float(choice), False, self.taken % 6 == 0, {}

    folder = record(observation, action, [6] * 60, reward=lambda obs, actions: actions["action"].astype(np.float32))
    more = {"algorithm.epoch_length": 40, "algorithm.batch_size": 120, "algorithm.lr": 0.01}
    for target, expected in ((6.0, 5.5), (0.0, 0.5)):
        context = sequence(
            quick, folder, lambda: Choosing(observation, action), more | {"algorithm.target_return": target}
        )
        context.train()
        reached = context.evaluate()["eval/return_mean"]
        assert (reached >= expected) if target else (reached <= expected)


def test_what_is_asked_for_may_depend_on_where_an_episode_begins(quick, record):
    """Each step pays what is seen: from 1 two more are within reach than from -1. A number that is set comes first."""
    observation = spaces.Box(-1, 1, (1,), np.float32)
    folder = record(observation, BOX, [6] * 60, reward=lambda obs, actions: obs["observation"][:-1, 0])
    more = {"algorithm.epoch_length": 40, "algorithm.batch_size": 60, "algorithm.lr": 0.01}
    context = sequence(quick, folder, lambda: SpacesEnv(observation, BOX), more | {"algorithm.return_expectile": 0.9})
    context.train()
    policy = context.policy

    def wanted(policy, seen):
        first = torch.tensor(seen).unsqueeze(1)
        _, state = policy.step({"observation": first}, policy.initial_state(len(seen)))
        _, after = policy.step({"observation": -first}, state)
        assert after["policy/left"].equal(state["policy/left"])  # asked once; then it falls by what is paid
        return state["policy/left"] * policy.context.scale

    low, high = wanted(policy, [-1.0, 1.0]).tolist()
    assert 1 < high - low < 3
    assert high > 1.5  # more than the mean: the other five steps pay 0 on average, and good episodes are asked for
    told = {"algorithm.return_expectile": 0.9, "algorithm.target_return": 0.25}
    asked = sequence(quick, folder, lambda: SpacesEnv(observation, BOX), told).run.policy
    assert wanted(asked, [-1.0, 1.0]).tolist() == pytest.approx([0.25] * 2)


def test_a_server_is_told_what_was_paid(quick, record):
    run = sequence(quick, record(OBSERVATION, BOX, [9, 5]), lambda: SpacesEnv(OBSERVATION, BOX))
    agent, asked = run.agent(), partial(ask, app_of(run))
    agent.reset()
    seen = [OBSERVATION.sample() for _ in range(4)]
    paid = [None, 2.5, -1.0, 7.0]
    for observation, reward in zip(seen, paid, strict=True):
        answer = asked("/act", {"observation": observation.tolist(), "reward": reward, "session": "a"})
        assert answer.json == {"action": to_json(agent.act(observation, reward))}
    for wrong, status in ((None, 422), ("much", 400), (True, 400), (10**39, 422), (10**400, 422)):
        answer = asked("/act", {"observation": seen[0].tolist(), "reward": wrong, "session": "a"})
        assert (answer.status, "reward" in answer.json["error"] or "paid" in answer.json["error"]) == (status, True)
    assert asked("/act", {"observations": [each.tolist() for each in seen], "session": "a"}).status == 422
    answer = asked("/act", {"observation": seen[1].tolist(), "reward": 0.5, "session": "a"})
    assert answer.json == {"action": to_json(agent.act(seen[1], 0.5))}  # what was refused is not remembered


def test_a_saved_policy_may_be_asked_for_another_return(quick, record):
    """The default is the best recorded one; what is asked for is a setting, not a part of the checkpoint."""
    env = gymnasium.make("Pendulum-v1")
    pay = lambda obs, actions: np.ones(len(actions["action"]), np.float32)  # noqa: E731
    folder = record(env.observation_space, env.action_space, [3, 4], reward=pay)
    few = {"algorithm.target_return": 2.0, "algorithm.epoch_length": 1, "evaluation.n_episodes": 1}
    run = sequence(quick, folder, "Pendulum-v1", few)
    run.train(1)
    run.close()
    for asked, wanted in ((2.0, 2.0), (-6.0, -6.0), (None, 4.0)):
        with RunContext.open(run.run_dir, overrides={"algorithm.target_return": asked}) as context:
            left = context.policy.initial_state(2)["policy/left"] * context.policy.context.scale
            assert left.tolist() == pytest.approx([wanted] * 2)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(record, goes_on_exactly):
    env = gymnasium.make("Pendulum-v1")
    folder = record(env.observation_space, env.action_space)
    same = {**TINY, "algorithm.dataset": str(folder), "algorithm.n_epochs": 4, "evaluation.n_episodes": 1}
    goes_on_exactly("Pendulum-v1", "dt", same)


def test_rewards_whose_sum_float32_cannot_hold_are_refused(quick, record):
    folder = record(OBSERVATION, BOX, reward=lambda obs, actions: np.full(len(actions["action"]), 3e38))
    with pytest.raises(ConfigError, match=r"the recorded rewards add up to .*e\+39, which float32 cannot hold"):
        sequence(quick, folder).train()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model.memory": "gru"}, "model.memory: dt has a memory of its own"),
        ({"steps": 1000}, "steps: dt learns from recorded data"),
        ({"model.critic": "separate"}, "model.critic: dt does not use"),
        ({"algorithm.heads": 3}, "algorithm: the size of 8 cannot be divided among 3 heads"),
        ({"algorithm.target_return": 1e39}, "algorithm.target_return: must be less than"),
        ({"algorithm.dataset": "nowhere"}, "nowhere"),
        ({"env": "CartPole-v1"}, "was recorded with the observation space"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(quick, record, tmp_path, more, words):
    more = dict(more)
    env = more.pop("env", paid)
    with pytest.raises(MazeError) as caught:
        sequence(quick, record(OBSERVATION, BOX), env, more).train()
    assert words in str(caught.value)
    assert caught.value.exit_code == 2
    assert not list(tmp_path.glob("run*"))
