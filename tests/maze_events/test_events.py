"""Events: what environments and wrappers report arrives in the statistics of each episode, however they are stepped."""

from __future__ import annotations

import math
from contextlib import closing

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_actors.agents import Round
from maze_actors.vector_env import AgentsVectorEnv
from maze_events.event import Event, Events, EventSummary
from maze_events.histograms import Histogram
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from tests.agents import Script
from tests.process_envs import process_envs

SEEDS = EpisodeSeeds(2, Purpose.TRAIN_EPISODES)
LENGTHS = (2, 3, 5)


class Till(gymnasium.Env):
    """Reports `sale` twice a step, once for an actor, and `last` at the end of an episode."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, length, declared=None, kpis=None):
        self.length = length
        self.events = Events(declared or {"sale": EPISODE, "peak": Event(["sum"], step="max"), "last": []}, kpis)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        self.events.report("sale", self.t)
        self.events.report("sale", 10 * self.t, actor="left")
        for value in (self.t, -self.t, 100 * self.t):
            self.events.report("peak", value)
        over = self.t == self.length
        if over:
            self.events.report("last")
        return np.full(1, self.t, np.float32), 1.0, over, False, {}


EPISODE = ["count", "sum", "mean", "min", "max", "histogram"]


def per_step(events):
    return {"per_step": events.sum("sale") / events.length, "unknown": math.nan, "last": events.count("last")}


def till(index):
    return Till(LENGTHS[index], kpis=per_step)


def expected(length):
    """The statistics of an episode, written from the definition of `Till`."""
    own = np.arange(1.0, length + 1)
    values = {}
    for place, sold in (("event/sale", np.concatenate([own, 10 * own])), ("actor/left/event/sale", 10 * own)):
        values |= {f"{place}/{name}": float(getattr(np, name)(sold)) for name in ("sum", "mean", "min", "max")}
        values[f"{place}/count"] = float(len(sold))
    return values | {"event/peak/sum": 100 * own.sum()}


def played(env, steps, last=0):
    with closing(env):
        out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
        env.reset(SEEDS, out)
        return [e for t in range(steps) for e in env.step({"action": np.zeros(env.num_envs, int)}, out).episodes]


def single(env, steps=1):
    return played(SerialVectorEnv(lambda _: env, 1), steps)


FORMS = {
    "in turn": lambda: SerialVectorEnv(till, 3),
    "processes": lambda: process_envs(till, 3, 2),
    **{
        mode.name: lambda mode=mode: NativeVectorEnv(
            SyncVectorEnv([lambda i=i: till(i) for i in range(3)], autoreset_mode=mode)
        )
        for mode in AutoresetMode
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_stepping_gives_the_statistics_of_each_episode(form):
    episodes = played(FORMS[form](), 24)
    assert {e.env_index for e in episodes} == {0, 1, 2}
    for episode in episodes:
        length = LENGTHS[episode.env_index]
        assert episode.length == length
        assert episode.events.values == pytest.approx(expected(length))
        drawn = episode.events.histograms["event/sale/histogram"]
        assert (drawn.count, drawn.total) == (2 * length, pytest.approx(11 * length * (length + 1) / 2))
        assert episode.metrics == {"kpi/per_step": pytest.approx(5.5 * (length + 1)), "kpi/last": 1.0}


def test_environments_without_events_are_stepped_by_their_own_method():
    env = gymnasium.make("CartPole-v1")
    assert SerialVectorEnv(lambda _: env, 1)._steps == [env.step]
    plain = Till(2, {"sale": ["sum"], "peak": ["sum"], "last": ["count"]})
    assert SerialVectorEnv(lambda _: plain, 1)._steps == [plain.step]


class Doubling(gymnasium.Wrapper):
    """Steps twice, and reports what it skipped."""

    def __init__(self, env, name="skipped"):
        super().__init__(env)
        self.events = Events({name: ["count"]})

    def reset(self, **kwargs):
        result = self.env.reset(**kwargs)
        self.env.step(0)
        self.events.report(*self.events.declared)
        return result

    def step(self, action):
        self.env.step(action)
        self.events.report(*self.events.declared)
        return self.env.step(action)


def test_wrappers_report_too_and_steps_that_they_skip_or_take_in_a_reset_are_no_trap():
    (episode,) = single(Doubling(Till(5)), 2)
    assert episode.events.values["event/skipped/count"] == 2  # not that of the reset
    assert episode.events.values["event/sale/sum"] == 11 * (2 + 3 + 4 + 5)  # the first step was taken in the reset


class Another(gymnasium.Wrapper):
    """Builds its environment anew for every episode."""

    def reset(self, **kwargs):
        self.env = Till(4, {"sale": ["sum"], "peak": Event(["sum"], step="max"), "last": []})
        return self.env.reset(**kwargs)


def test_an_environment_may_be_replaced_in_a_reset():
    episodes = single(Another(Till(2)), 8)
    sums = {"event/sale/sum": 110.0, "actor/left/event/sale/sum": 100.0, "event/peak/sum": 1000.0}
    assert [each.events.values for each in episodes] == [sums, sums]


class Strange(gymnasium.Wrapper):
    """Has attributes of the same names that mean something else."""

    @property
    def events(self):
        raise RuntimeError("not before the first step")

    def close(self):
        pass


def test_attributes_of_the_same_name_are_left_alone():
    plain = gymnasium.make("CartPole-v1")
    plain.events = ["click", "key"]
    assert SerialVectorEnv(lambda _: Strange(plain), 1)._events == [[]]


def test_agents_report_through_their_environment():
    script = Script([Round({"a": np.zeros(1, np.float32)}), Round({}, {"a": 1.0}, {"a": np.ones(1, np.float32)})])
    script.events = Events({"win": ["count"]}, lambda events: {"wins": events.count("win", "a")})
    play = script.step
    script.step = lambda actions: (script.events.report("win", actor="a"), play(actions))[1]
    episode = played(AgentsVectorEnv(lambda _: script, 1), 1)[0]
    assert episode.events.values == {"event/win/count": 1.0, "actor/a/event/win/count": 1.0}
    assert episode.metrics["kpi/wins"] == 1.0


def test_an_episode_that_is_replayed_after_a_resume_has_the_events_of_the_whole_episode():
    env, again = SerialVectorEnv(till, 3), SerialVectorEnv(till, 3)
    out = allocate(space_specs(env.observation_space, "observation"), (3,))
    actions = {"action": np.zeros(3, int)}
    env.reset(SEEDS, out)
    for _ in range(4):
        env.step(actions, out)
    again.restore(SEEDS, env.state(), out)
    after = [e for _ in range(6) for e in again.step(actions, out).episodes]
    assert after == [e for _ in range(6) for e in env.step(actions, out).episodes]
    assert len(after) == 7


class Reporting(gymnasium.Env):
    """Reports what it is told in its first step."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, *reports, kpis=None):
        self.events, self.reports = Events({"sale": ["sum"]}, kpis), reports

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        for report in self.reports:
            self.events.report(*report)
        return np.zeros(1, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (("sal",), "event 'sal' is not declared; declared are sale"),
        ((["sale"],), "not declared"),
        (("sale", math.nan), "event 'sale' has a value that is not finite: nan"),
        (("sale", math.inf), "not finite"),
        (("sale", 10**400), "not finite"),
        (("sale", 1e39), "not finite"),
        (("sale", "3"), "event 'sale' has a value that is not a number: '3'"),
        (("sale", None), "not a number"),
        (("sale", 1j), "not a number"),
        (("sale", np.ones(2)), "not a number"),
        (("sale", 1, "a/b"), "the actor 'a/b' is no name"),
        (("sale", 1, 7), "the actor 7 is no name"),
        (("sale", 1, "\x1b[2J"), "is no name"),
    ],
)
def test_a_wrong_report_ends_the_run_and_names_environment_and_step(report, message):
    with pytest.raises(RunError, match=r"environment 0 \(episode 0, step 1\) raised ValueError") as caught:
        single(Reporting(report))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [3, 3.0, True, np.float32(3), np.int64(3), np.bool_(True), np.array(3)])
def test_numbers_of_every_kind_are_values(value):
    (episode,) = single(Reporting(("sale", value)))
    assert episode.events.values == {"event/sale/sum": float(value)}


@pytest.mark.parametrize(
    ("kpis", "message"),
    [
        (lambda events: 3, "must be a mapping"),
        (lambda events: {"a": "b"}, "not a number"),
        (lambda events: {"a": math.inf}, "not finite"),
        (lambda events: {3: 1.0}, "must be a mapping"),
        (lambda events: {str(n): 1.0 for n in range(1001)}, "at most 1,000 names"),
        (lambda events: 1 / 0, "ZeroDivisionError"),
        (lambda events: {"a": events.sum("other")}, "event 'other' is not declared"),
    ],
)
def test_kpis_that_cannot_be_computed_end_the_run(kpis, message):
    with pytest.raises(RunError, match=r"environment 0 \(episode 0, step 1\): the KPIs raised") as caught:
        single(Reporting(kpis=kpis))
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"sale": ["average"]}, "event 'sale': episode must be a list of count, sum"),
        ({"sale": "sum"}, "episode must be a list"),
        ({"sale": Event(epoch=["count"])}, "epoch must be a list of sum, mean"),
        ({"sale": Event(step="histogram")}, "step must be None or one of"),
        ({"": []}, "name is printable text"),
        ({"a\nb": []}, "name is printable text"),
        ({"a" * 101: []}, "name is printable text"),
        ({3: []}, "name is printable text"),
        ({str(n): [] for n in range(1001)}, "at most 1,000 names"),
        (["sale"], "by a mapping"),
    ],
)
def test_a_wrong_declaration_is_refused(declared, message):
    with pytest.raises(ConfigError, match=message):
        Events(declared)


def test_actors_without_end_are_refused():
    with pytest.raises(RunError, match="more than 1,000 pairs"):
        single(Reporting(*(("sale", 1, f"actor{n}") for n in range(1001))))


def test_events_that_would_be_mixed_are_refused():
    shared = [Till(2), Till(2)]
    shared[1].events = shared[0].events
    with pytest.raises(ConfigError, match="share one object"):
        SerialVectorEnv(lambda number: shared[number], 2)
    with pytest.raises(ConfigError, match="declare the event 'sale'"):
        SerialVectorEnv(lambda _: Doubling(Till(2), "sale"), 1)


def test_a_summary_survives_its_plain_form():
    (episode,) = single(Till(2), 2)
    assert EventSummary.load(episode.events.state()) == episode.events


def test_histograms_count_every_number_once():
    values = np.random.default_rng(0).normal(size=500) * np.logspace(-15, 38, 500)
    values[:3] = 0, 1e39, -1e39
    whole, one_by_one, merged = Histogram.of(values), Histogram(), Histogram.of(values[:200])
    for value in values.tolist():
        one_by_one.add(value)
    merged.merge(Histogram.of(values[200:]))
    for other in (one_by_one, merged, Histogram.load(whole.state())):
        assert other.buckets == whole.buckets
        assert (other.low, other.high) == (whole.low, whole.high)
        assert other.total == pytest.approx(whole.total)
    limits, counts = zip(*whole.bars(), strict=True)
    assert sum(counts) == 500
    assert list(limits) == sorted(set(limits))
    clipped = np.clip(values, -1e39, 1e39)
    for limit, total in zip(limits, np.cumsum(counts), strict=True):  # numbers at a bound may fall on either side
        assert abs(int((clipped < limit).sum()) - total) <= 3
