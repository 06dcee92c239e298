"""Wrappers with memory that save no state themselves: what they remember goes with the run, or it is said."""

import itertools
from collections import Counter, deque
from copy import deepcopy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import (
    ClipAction,
    FrameStackObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    RescaleAction,
    TimeLimit,
    TransformObservation,
)
from maze_devkit.envs import SeededWalk
from maze_export.export import export_policy
from maze_serve.policy import ServedPolicy

from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.envs.wrappers import forgotten, lasting_layers, remembering
from maze_core.run.saved.checkpoint import decode_state, encode_state


class Moments:
    """Running mean and spread, kept in an object of its own."""

    def __init__(self, size):
        self.mean, self.total, self.count = 0.0, np.zeros(size), 0

    def __call__(self, value):
        self.count += 1
        self.total = self.total + value
        self.mean = self.total / self.count
        return (value - self.mean).astype(np.float32)


class Shifted(gymnasium.ObservationWrapper):
    """Subtracts a running mean, one for each of two parts."""

    def __init__(self, env):
        super().__init__(env)
        self.parts = {"a": Moments(2), "b": Moments(2)}

    def observation(self, observation):
        return self.parts["b"](self.parts["a"](observation))


class Counted(gymnasium.Wrapper):
    """Pays less for what has been seen more often, since it was made."""

    def __init__(self, env):
        super().__init__(env)
        self.seen = Counter()

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        self.seen[tuple(np.round(observation, 1).tolist()), observation.tobytes()[:2]] += 1
        return observation, reward / sum(self.seen.values()), *rest


class Late(gymnasium.Wrapper):
    """Remembers in attributes that are not there at first, or of the class, and in a generator of its own."""

    episodes = 0

    def reset(self, **options):
        self.episodes += 1
        if not hasattr(self, "random"):
            self.random = None
            self.before = deque(maxlen=3)
        self.before.append(float(self.episodes))
        return super().reset(**options)

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward + sum(self.before), *rest


class Noisy(gymnasium.ObservationWrapper):
    """Adds noise of a generator that no reset seeds."""

    def __init__(self, env):
        super().__init__(env)
        self.random = np.random.default_rng(3)

    def observation(self, observation):
        return (observation + self.random.normal(0, 0.1, 2)).astype(np.float32)


class Opaque(gymnasium.Wrapper):
    """Keeps its count where nobody can read it."""

    def __init__(self, env):
        super().__init__(env)
        self.steps = itertools.count()

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, reward + next(self.steps), *rest


class Unmade(gymnasium.ObservationWrapper):
    """Makes the object that remembers when it first needs it."""

    def observation(self, observation):
        if not hasattr(self, "moments"):
            self.moments = Moments(2)
        return self.moments(observation)


class OpaqueNormalizer(Opaque):
    """Its name says what it does."""


class Stacked(gymnasium.ObservationWrapper):
    """A stack of frames of one's own, which a reset clears."""

    def __init__(self, env):
        super().__init__(env)
        self.frames = deque(maxlen=2)
        self.observation_space = spaces.Box(-np.inf, np.inf, (2, 2), np.float32)

    def reset(self, **options):
        self.frames.clear()
        return super().reset(**options)

    def observation(self, observation):
        self.frames.append(observation)
        return np.stack([self.frames[0], observation])


class Logged(gymnasium.Wrapper):
    """Counts for itself what changes nothing."""

    steps = 0

    def step(self, action):
        self.steps += 1
        return self.env.step(action)


REMEMBERING = [NormalizeObservation, NormalizeReward, Shifted, Counted, Late, Noisy]


def made():
    """Return an environment with wrappers that were put on in the user's own function."""
    return Late(NormalizeObservation(SeededWalk()))


@pytest.mark.parametrize("wrapper", REMEMBERING[1::2])
def test_a_resumed_run_is_the_uninterrupted_one_and_plays_as_it(quick, whole_state, assert_same, wrapper):
    values = {"algorithm.n_epochs": 3}
    whole = quick(wrappers=[wrapper], overrides=values)
    whole.train()
    half = quick(wrappers=[wrapper])
    half.train()
    quick(wrappers=[wrapper], overrides=values, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    opened = quick(wrappers=[wrapper]).load(whole.run_dir, "last")
    ours, theirs = (each.evaluate() | {"time/evaluation_seconds": 0} for each in (whole, opened))
    assert ours == theirs
    for one, other in zip(whole.rollout(9, seed=4), opened.rollout(9, seed=4, workers=2), strict=True):
        np.testing.assert_array_equal(one.obs["observation"], other.obs["observation"])
        np.testing.assert_array_equal(one.wrapped_rewards, other.wrapped_rewards)


@pytest.mark.parametrize("env", [made, SeededWalk])
def test_workers_change_nothing(quick, whole_state, assert_same, env):
    wrappers = [] if env is made else [Shifted, "gymnasium.wrappers:NormalizeObservation"]
    runs = [quick(env, wrappers=wrappers), quick(env, wrappers=wrappers, runner={"name": "local", "workers": 2})]
    for run in runs:
        run.train()
    assert_same(*(whole_state(run.run_dir) for run in runs))


def test_evaluations_use_the_statistics_of_training_and_leave_them_alone(quick):
    run = quick(wrappers=[NormalizeObservation])
    run.train()
    before = run.run.environments.training_memory()
    count = before[0][0]["attributes"]["obs_rms"]["object"]["dict"]
    run.evaluate()
    env = run.make_env()
    assert not env.update_running_mean
    assert env.obs_rms.count == dict(count)["count"] > 10
    np.testing.assert_equal(run.run.environments.training_memory(), before)
    run.run.evaluate(1)
    assert all(not each[0]["attributes"]["_update_running_mean"] for each in run.run.wrapper_memory())


@pytest.mark.parametrize("wrapper", REMEMBERING)
def test_wrappers_that_remember_are_found_and_can_be_saved(wrapper):
    assert remembering(wrapper(SeededWalk())) == wrapper.__name__
    assert forgotten(lambda: wrapper(SeededWalk())) is None


@pytest.mark.parametrize(
    "wrap",
    [
        Stacked,
        Logged,
        RecordEpisodeStatistics,
        lambda env: FrameStackObservation(env, 3),
        lambda env: TimeLimit(env, 5),
        lambda env: TransformObservation(env, lambda value: 2 * value, env.observation_space),
        lambda env: ClipAction(RescaleAction(gymnasium.make("Pendulum-v1"), -1.0, 1.0)),
    ],
)
def test_what_a_reset_clears_and_what_changes_nothing_needs_no_word(wrap):
    assert remembering(wrap(SeededWalk())) is None
    assert forgotten(lambda: wrap(SeededWalk())) is None


@pytest.mark.parametrize(
    ("wrapper", "advice"),
    [
        (Opaque, "(not its steps)"),
        (OpaqueNormalizer, "normalize_observations"),
        (Unmade, "state() and load_state()"),
    ],
)
def test_what_cannot_be_saved_is_said_by_name_in_every_command(quick, capsys, wrapper, advice):
    run = quick(wrappers=[Logged, wrapper])
    run.train()
    (note,) = [note for note in run.run.notes if "depends on more" in note]
    assert note.startswith(f"the wrapper {wrapper.__name__} depends on more than can be saved of it")
    assert advice in note
    capsys.readouterr()
    quick(wrappers=[Logged, wrapper]).load(run.run_dir, "last").evaluate()
    assert f"note: {note}" in capsys.readouterr().err


def test_an_environment_that_does_not_repeat_itself_is_no_fault_of_a_wrapper():
    class Chance(SeededWalk):
        def step(self, action):
            return (np.random.rand(2).astype(np.float32), *super().step(action)[1:])

    assert remembering(Logged(Chance())) is None
    assert forgotten(lambda: Opaque(Chance())) is None


def test_es_compares_single_episodes(quick):
    with pytest.raises(ConfigError, match="NormalizeObservation keeps state from earlier episodes"):
        quick(algorithm="es", wrappers=[NormalizeObservation]).train()
    quick(algorithm="es", wrappers=[Stacked, Logged])


class Tracker:
    """Counts steps, and knows the wrapper that it belongs to."""

    def __init__(self, owner):
        self.owner, self.steps, self.name = owner, 0, "steps"


class Tracked(gymnasium.Wrapper):
    """Keeps its count in an object that leads back to it; data and the environment's own parts stay where they are."""

    def __init__(self, env):
        super().__init__(env)
        self.tracker, self.data, self.inner = Tracker(self), np.zeros((2048, 2049)), env.unwrapped

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        self.tracker.steps += 1
        return observation, reward + self.tracker.steps, *rest


def saved_state(wrapper, steps=5):
    env = wrapper(SeededWalk())
    env.reset(seed=1)
    for _ in range(steps):
        env.step(0)
    (layer,) = lasting_layers(env)
    return layer.state()


def loaded(wrapper, state):
    env = wrapper(SeededWalk())
    (layer,) = lasting_layers(env)
    layer.load_state(decode_state(*encode_state(state)))
    return env


def test_objects_that_lead_back_are_saved_without_what_they_lead_to():
    state = saved_state(Tracked)
    assert state["others"] == ["data", "inner"]
    assert loaded(Tracked, state).tracker.steps == 5
    assert forgotten(lambda: Tracked(SeededWalk())) is None


class Replacing(gymnasium.ObservationWrapper):
    """Makes its mean anew at each step, in memory that an array of the environment may have left."""

    def __init__(self, env):
        super().__init__(env)
        env.unwrapped.noise = np.zeros(2)
        self.limits, self.mean = (0, 1), np.zeros(2)

    def observation(self, observation):
        self.unwrapped.noise = None
        self.mean = self.mean + 1
        return (observation - self.mean).astype(np.float32)


def test_what_takes_the_memory_of_a_part_of_the_environment_is_saved():
    bare = SeededWalk()
    bare.steps = Replacing(SeededWalk()).limits  # the same constant is part of the environment, too
    env = Replacing(bare)
    (layer,) = lasting_layers(env)
    for seed in range(5):
        env.reset(seed=seed)
        assert {"limits", "mean"} <= layer.state()["attributes"].keys()


def leaves_of(value, path=()):
    """Yield the path of every value in a saved state."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*path, key)
        yield from leaves_of(member, (*path, key))


def changed(state, path, value):
    copy = deepcopy(state)
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


WRONG = [None, "text", -1, [], {"a": 1}, {"object": {"dict": []}}, np.zeros((7, 7)), True, {"generator": {"dict": []}}]


@pytest.mark.parametrize("wrapper", [NormalizeObservation, Shifted, Counted, Noisy, Late])
def test_a_state_that_was_altered_is_refused_or_stays_plain_data(wrapper):
    """Each place of it has each of some wrong values; no method is replaced, and nothing else is raised."""
    state, refused = saved_state(wrapper), 0
    for path in leaves_of(state):
        for wrong in WRONG:
            try:
                env = loaded(wrapper, changed(state, path, wrong))
            except CheckpointError:
                refused += 1
            else:
                assert callable(env.step)
                assert callable(env.reset)
                assert isinstance(env.env, SeededWalk)
    assert refused > 20


@pytest.mark.parametrize("name", ["env", "step", "reset", "_action_space", "a b", "__class__", "observation"])
def test_no_state_puts_a_value_where_code_or_another_environment_is(name):
    state = saved_state(NormalizeObservation)
    with pytest.raises(CheckpointError, match=r"NormalizeObservation does not fit: .* is no attribute that is saved"):
        loaded(NormalizeObservation, {**state, "attributes": {**state["attributes"], name: 3}})


@pytest.mark.parametrize(("wrapper", "said"), [(NormalizeObservation, True), (Stacked, False)])
def test_what_acts_without_the_wrappers_says_that_their_memory_is_missing(quick, tmp_path, capsys, wrapper, said):
    run = quick(wrappers=[wrapper])
    run.train()
    export_policy(run.run, tmp_path / "policy.pt2")
    ServedPolicy(run)
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: the policy takes")]
    assert len(notes) == 2 * said
    assert all("NormalizeObservation" in note and "--wrappers normalize_observations" in note for note in notes)


@pytest.mark.slow
def test_evaluations_that_know_nothing_of_training_say_so(quick, capsys):
    """The actors are processes, which step environments of their own."""
    quick(algorithm="impala", wrappers=["gymnasium.wrappers:NormalizeObservation"], runner="local").train()
    told = [line for line in capsys.readouterr().err.splitlines() if "do not know those of training" in line]
    assert len(told) == 1
    assert "NormalizeObservation" in told[0]


def test_without_this_distribution_it_is_said_what_is_not_saved(quick, monkeypatch):
    whole = quick(wrappers=[Counted])
    whole.train()
    monkeypatch.setenv("MAZE_DISABLE_PLUGINS", "maze-wrappers")
    without = quick(wrappers=[Counted])
    without.train()
    (note,) = [each for each in without.run.notes if "maze-wrappers" in each]
    assert note.startswith("what the wrapper Counted remembers of earlier episodes is not saved: ")
    with pytest.raises(CheckpointError, match=r"maze-wrappers, which is not installed\. Next: pip install"):
        quick(wrappers=[Counted]).resume(whole.run_dir)
