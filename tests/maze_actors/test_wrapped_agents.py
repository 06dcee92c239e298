"""Wrappers around the part of each of several agents."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_actors.agents import LimitedAgents, Round, raw_of
from maze_actors.wrapped import WrappedParts, around_agents
from maze_wrappers.time import RepeatedActions

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.assembly import env_config
from maze_core.plugins.discovery import load
from tests.agents import CrowdSource, Script, in_turns

pytestmark = pytest.mark.usefixtures("known_plugins")


def around(env, *wrappers, overrides=()):
    _, configs = env_config({"name": "gymnasium", "id": "CartPole-v1"}, wrappers, overrides)
    for config in configs:
        env = around_agents(env, load("wrapper", config.name)(config), 0)
    return env


def test_each_agent_has_a_stack_of_its_own():
    env = around(in_turns(2), "stack", overrides=["wrappers.0.size=2"])
    assert env.observation_spaces["agent 0"].shape == (2, 1)
    seen = [env.reset(seed=1)]
    for _ in range(4):
        seen.append(env.step(dict.fromkeys(seen[-1].acting, 0)))
    stacks = [next(iter(each.acting.values())).ravel().tolist() for each in seen[:5]]
    assert stacks == [[0, 0], [1, 1], [0, 2], [1, 3], [2, 4]]


def test_what_was_paid_while_an_agent_waited_is_clipped_as_one_reward():
    zero = np.zeros(1, np.float32)
    turns = [
        Round({"a": zero}),
        Round({"b": zero}, {"a": 2.0}),
        Round({"a": zero}, {"a": 3.0, "b": -7.0}),
        Round({}, {"a": 1.0}, {"a": zero, "b": zero}),
    ]
    env = around(Script(turns), "clip_reward")
    found = [env.reset(seed=1), env.step({"a": 0}), env.step({"b": 0}), env.step({"a": 0})]
    assert [each.rewards.get("a") for each in found] == [0.0, None, 1.0, 1.0]
    assert [each.raw.get("a") for each in found] == [0.0, None, 5.0, 1.0]
    assert (found[3].rewards["b"], found[3].raw["b"]) == (-1.0, -7.0)
    assert set(found[3].terminated) == {"a", "b"}


@pytest.mark.parametrize(("wrappers", "paid"), [([], -7.0), (["clip_reward"], -1.0)])
def test_what_an_agent_waits_for_is_paid_when_a_limit_cuts_the_episode(wrappers, paid):
    """Told in rounds, or owed by the environment: below and above wrappers, and before them."""
    zero = np.zeros(1, np.float32)
    turns = [Round({"a": zero}), Round({"b": zero}), Round({"a": zero}, {"b": -3.0}), Round({"a": zero})]
    game = Script(turns, ("a", "b", "never"))
    game.rewards_owed = lambda: Round({}, {"b": -4.0, "never": 2.0})
    env = LimitedAgents(around(game, *wrappers), 2)
    env.reset(seed=1)
    env.step({"a": 0})
    outcome = env.step({"b": 0})
    assert not outcome.acting
    assert set(outcome.truncated) == {"a", "b"}
    assert {name: outcome.rewards[name] for name in ("b", "never")} == {"b": paid, "never": 2.0}
    assert {name: raw_of(outcome)[name] for name in ("b", "never")} == {"b": -7.0, "never": 2.0}


class Told(gymnasium.ObservationWrapper):
    """Keeps what it is told, and tells more."""

    def __init__(self, env):
        super().__init__(env)
        self.infos = []

    def reset(self, **options):
        observation, info = self.env.reset(**options)
        self.infos.append(dict(info))
        return observation, {**info, "more": len(self.infos)}

    def step(self, action):
        *result, info = self.env.step(action)
        self.infos.append(dict(info))
        return (*result, {**info, "more": len(self.infos)})


def test_each_agents_info_reaches_its_wrappers_one_after_the_other():
    zero = np.zeros(1, np.float32)
    turns = [
        Round({"a": zero}, infos={"a": {"x": 0}, "b": {"x": -1}}),
        Round({"b": zero}, infos={"b": {"x": 1}}),
        Round({"a": zero}),
        Round({}, {}, {"a": zero}, {"b": zero}, infos={"a": {"x": 3}, "b": {"x": 4}}),
    ]
    inner = WrappedParts(Script(turns), Told)
    outer = WrappedParts(inner, Told)
    found = [outer.reset(seed=1), outer.step({"a": 0}), outer.step({"b": 0}), outer.step({"a": 0})]
    assert inner.wrapped["a"].infos == [{"x": 0}, {}, {"x": 3}]
    assert inner.wrapped["b"].infos == [{"x": 1}, {"x": 4}]
    assert outer.wrapped["a"].infos == [{"x": 0, "more": 1}, {"more": 2}, {"x": 3, "more": 3}]
    assert found[3].infos == {"a": {"x": 3, "more": 3}, "b": {"x": 4, "more": 2}}


def test_numbers_of_the_info_become_observations_of_each_agent():
    zero = np.zeros(1, np.float32)
    env = Script([Round({"a": zero, "b": zero}, infos={"a": {"speed": 2.0}, "b": {"speed": 3.0}})])
    outer = around(env, "info_to_observation", overrides=["wrappers.0.keys={speed: []}"])
    seen = outer.reset(seed=1).acting
    assert (seen["a"]["speed"], seen["b"]["speed"]) == (2.0, 3.0)
    assert outer.observed("a", zero, {"speed": 5.0})["speed"] == 5.0


def test_actions_pass_through_action_wrappers():
    env = in_turns(1)
    env.action_spaces = {"agent 0": spaces.Box(-2, 2, (1,))}
    outer = around(env, "rescale_actions")
    outer.reset(seed=1)
    outer.step({"agent 0": np.array([0.5], np.float32)})
    assert env.asked[0]["agent 0"].tolist() == [1.0]


def test_limits_and_repeated_actions_concern_all():
    assert isinstance(around(in_turns(2), "time_limit"), LimitedAgents)
    env = in_turns(1)
    skipping = around(env, "step_skip", overrides=["wrappers.0.steps=3"])
    skipping.reset(seed=1)
    outcome = skipping.step({"agent 0": 1})
    assert isinstance(skipping, RepeatedActions)
    assert (len(env.asked), outcome.rewards, outcome.acting["agent 0"].tolist()) == (3, {"agent 0": 3.0}, [3.0])


def test_actions_are_repeated_until_a_mask_changes():
    """That of any agent, the last one, too."""
    looks = [{"a": (1, 1), "b": mask} for mask in ((1, 1), (1, 1), (0, 1), (0, 1), (0, 1), (1, 1))]
    space = spaces.Dict({"x": spaces.Box(0, 1, (1,)), "action_mask": spaces.MultiBinary(2)})

    def seen(look):
        return {a: {"x": np.zeros(1, np.float32), "action_mask": np.array(m, np.int8)} for a, m in look.items()}

    game = Script([Round(seen(look), {"a": 1.0}) for look in looks])
    game.observation_spaces = dict.fromkeys(game.agents, space)
    env = RepeatedActions(game, 3)
    env.reset(seed=1)
    assert [env.step({"a": 0, "b": 1}).rewards["a"] for _ in range(2)] == [2.0, 3.0]


def test_numbers_of_each_agents_info_are_added_up_over_repeated_actions():
    zero = np.zeros(1, np.float32)
    both = {"a": zero, "b": zero}
    infos = [{"a": {"cost": 1.0, "x": i}, "b": {"cost": 10.0}, "c": {}} for i in range(3)]
    env = around(
        Script([Round(both), *(Round(both, infos=info) for info in infos)]),
        "step_skip",
        overrides=["wrappers.0.steps=3", "wrappers.0.add_up=[cost]"],
    )
    env.reset(seed=1)
    outcome = env.step({"a": 0, "b": 0})
    assert outcome.infos == {"a": {"cost": 3.0, "x": 2}, "b": {"cost": 30.0}, "c": {}}


class Twice(gymnasium.Wrapper):
    def step(self, action):
        self.env.step(action)
        return self.env.step(action)


class Early(gymnasium.Wrapper):
    def step(self, action):
        return *self.env.step(action)[:2], True, False, {}


@pytest.mark.parametrize(
    ("wrapper", "message"), [(Twice, "repeats them within its step"), (Early, "--wrappers time_limit")]
)
def test_what_does_not_go_part_by_part_is_refused(wrapper, message):
    env = WrappedParts(in_turns(1), wrapper)
    env.reset(seed=1)
    with pytest.raises(ConfigError, match=message):
        env.step({"agent 0": 1})


def test_a_function_of_supersuit_needs_pettingzoo_below(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "supersuit", SimpleNamespace(frame_stack_v1=lambda env: env))
    with pytest.raises(ConfigError, match="wraps PettingZoo's environments"):
        around(in_turns(1), "supersuit:frame_stack_v1")


def test_a_resumed_run_is_the_uninterrupted_one(quick, whole_state, assert_same):
    """Also with wrappers that remember earlier episodes."""
    wrappers = ["clip_reward", {"name": "stack", "size": 2}, {"name": "time_limit", "steps": 9}, "normalize_reward"]
    wrappers += ["gymnasium.wrappers:NormalizeReward"]
    whole = quick(CrowdSource, wrappers=wrappers, overrides={"algorithm.n_epochs": 3})
    whole.train()
    half = quick(CrowdSource, wrappers=wrappers)
    half.train()
    half.close()
    rest = quick(CrowdSource, wrappers=wrappers, overrides={"algorithm.n_epochs": 3})
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))
