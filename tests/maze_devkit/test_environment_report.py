"""A look at an environment finds what training would refuse, and names what helps."""

import random
import re
from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_devkit.environment_report import examine_environment
from maze_devkit.envs import CountingEnv, FailingEnv, SeededWalk, SpacesEnv
from maze_devkit.probes import Doors, Told, Workshop
from maze_devkit.turns import Carousel, Shelves
from maze_environments.parameters import Choice, IntRange

from maze_core.base.errors import MazeError
from maze_core.plugins.config.assembly import env_config
from tests.cli.broken_envs import FEW, VALUES, single_environments
from tests.corridors import Corridor, Hall
from tests.masked import Guarded

pytestmark = pytest.mark.usefixtures("known_plugins")


@pytest.fixture
def examine(monkeypatch):
    def look(make, wrappers=(), overrides=(), **spec):
        monkeypatch.setitem(gymnasium.registry, "Looked-v0", EnvSpec("Looked-v0", make, **spec))
        return examine_environment(*env_config({"name": "gymnasium", "id": "Looked-v0"}, wrappers, overrides))

    return look


def grid():
    parts = {"image": spaces.Box(0, 255, (7, 7, 3), np.uint8), "mission": spaces.Text(20)}
    return SpacesEnv(spaces.Dict(parts), spaces.Discrete(3))


@pytest.mark.parametrize("make", [SeededWalk, Doors])
def test_a_sound_environment_has_no_problems(make, examine):
    report = examine(make)
    assert report.problems == []
    assert report.stepped == "single"


def test_parameters_are_shown_and_tried(examine):
    report = examine(Hall)
    assert report.parameters == ["size: 2 to 6", "wind: 0 to 0.5", "floor: wood or ice"]
    assert report.problems == []
    assert examine(SeededWalk).parameters == []


class Larger(Corridor):
    def set_parameters(self, *, size, **others):
        self.observation_space = spaces.Box(-100, 100, (size,), np.float32)


class Strict(Corridor):
    def set_parameters(self, *, size, wind, floor):
        if size > 4:
            raise ValueError("too large")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (type("Words", (Corridor,), {"curriculum": ("size",)}), "not a mapping of ranges by name"),
        (type("Point", (Corridor,), {"curriculum": {"size": IntRange(3, 3)}}), "not a mapping of ranges by name"),
        (type("Nothing", (Corridor,), {"curriculum": {"size": Choice(())}}), "not a mapping of ranges by name"),
        (type("Typo", (Corridor,), {"curriculum": {"sise": IntRange(3, 5)}}), "does not take sise=3"),
        (Larger, "the observation_space is"),
        (Strict, "does not take size=6.*too large"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_parameters_that_it_does_not_take_are_a_problem(make, said, examine):
    assert any(re.search(said, each) for each in examine(make).problems)


def test_who_takes_turns_is_reported(examine):
    class Silent(Shelves):
        def next_turn(self, actor, action):
            return super().next_turn("place", super().next_turn("pick", action) and 0)

    assert examine(SeededWalk).actors == []
    report = examine(Carousel)
    assert report.problems == []
    assert [each.partition(":")[0] for each in report.actors] == ["choose", "left", "right"]
    assert report.actors[2].endswith("of the turns, with the spaces of left")
    assert examine(Shelves).actors == ["pick: 50% of the turns", "place: 50% of the turns"]
    silent = examine(Silent)
    assert any("the actor 'place' did not act in 200 random turns" in each for each in silent.warnings)


def test_a_turn_that_does_not_fit_is_a_problem(examine):
    class Wrong(Shelves):
        def next_turn(self, actor, action):
            return replace(super().next_turn(actor, action), actor="nobody")

    problem = examine(Wrong).problems[0]
    assert "next_turn names the unknown actor 'nobody'; the actors are pick, place" in problem


def test_a_text_is_refused_and_the_wrapper_that_helps_is_named(examine):
    (problem,) = examine(grid).problems
    assert "Text space" in problem
    assert "--wrappers drop --set 'wrappers.0.keys=[mission]'" in problem
    assert "--wrappers tokenize" in problem
    dropped = examine(grid, ["drop"], ["wrappers.0.keys=[mission]"])
    assert dropped.problems == []
    assert "mission" not in dropped.observation_space
    assert any("--model cnn" in each for each in dropped.warnings)
    assert any("--model template" in each for each in examine(grid, ["tokenize"]).warnings)


def test_a_finding_without_words_is_told_as_what_does_not_hold(examine, monkeypatch):
    def silent(env, skip_render_check):
        raise AssertionError

    monkeypatch.setattr("maze_devkit.environment_report.check_env", silent)
    finding = "AssertionError: gymnasium's checker reports a violated condition: raise AssertionError"
    report = examine(SeededWalk)
    assert report.problems == []
    assert finding in report.warnings


class Untrue(SeededWalk):
    """Its observations are not as declared; which ones, `when` says."""

    def __init__(self, when):
        super().__init__()
        self._when = when
        self.observation_space = spaces.Box(-1e3, 1e3, (2,), np.float64)

    def observe(self):
        observation = super().observe()
        if (self._steps == 0) == (self._when == "first"):
            return observation[:1] if self._when == "first" else observation + 1e4
        return observation


@pytest.mark.parametrize(("when", "message"), [("first", "first observation does not match"), ("later", "step 1")])
def test_observations_that_are_not_as_declared(when, message, examine):
    report = examine(lambda: Untrue(when))
    # A run refuses another shape, and trains with values outside of the bounds.
    assert any(message in each for each in (report.problems if when == "first" else report.warnings))
    assert bool(report.problems) == (when == "first")


@pytest.mark.parametrize("way", ["raise", "nan_observation", "nan_reward"])
def test_what_ends_a_run_is_found(way, examine):
    assert examine(lambda: FailingEnv(way)).problems


class Careless(SeededWalk):
    """Draws from no seed."""

    def step(self, action):
        observation, *rest = super().step(action)
        return observation + np.random.default_rng().normal(), *rest


def test_what_the_seed_does_not_decide_is_found(examine):
    report = examine(Careless)
    assert report.problems == []
    assert any("same seed and actions differ" in each for each in report.warnings)


@pytest.mark.parametrize("form", ["a Dict", "a Tuple for a Tuple", "a board"])
def test_masks_of_every_form_are_followed(examine, form):
    assert examine(partial(Guarded, form)).problems == []
    problem = examine(partial(Guarded, form, closed=4)).problems[0]
    what, following, *_ = problem.splitlines()
    assert "forbids every choice" in what
    assert following.startswith("Next: let the environment allow at least one action in each step")


def test_masks_hide_no_fault(examine):
    """Whatever is looked at without masks is looked at with them, by actions that they allow."""

    class Careless(Guarded):
        def __init__(self):
            super().__init__("a Dict")
            self.observation_space = spaces.Dict({**self.observation_space, "x": spaces.Box(0, 1, (1,))})

        def look(self):
            return super().look() | {"x": np.array([7 * self._steps * random.random()], np.float32)}

    warnings = " ".join(examine(Careless).warnings)
    assert "observation['x']" in warnings
    assert "with the same seed and actions differ at step 1" in warnings


def test_masks_of_other_names_are_told(examine):
    def named(name):
        observation = spaces.Dict({name: spaces.MultiBinary(3), "x": spaces.Box(-1, 1, (2,))})
        return examine(partial(SpacesEnv, observation, spaces.Discrete(3)))

    assert any("it must be called 'action_mask'" in each for each in named("mask").warnings)
    (problem,) = named("legal_actions").problems
    assert "'legal_actions'" in problem
    assert "named like an action mask" in problem


def test_masks_that_are_told_elsewhere(examine):
    assert any("--wrappers mask_from_info" in each for each in examine(Told).warnings)
    masked = examine(Told, ["mask_from_info"])
    assert masked.problems == []
    assert not any("mask" in each for each in masked.warnings)


def test_a_wrapper_class_is_looked_through(examine):
    report = examine(Workshop, ["gymnasium.wrappers:TimeLimit"], ["wrappers.0.kwargs.max_episode_steps=5"])
    assert "TimeLimit" in report.environment
    assert report.problems == []


def test_the_vectorised_form_is_looked_at(examine):
    def vector(num_envs):
        return SyncVectorEnv([SeededWalk] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    native = ["env.vectorization=native"]
    assert examine(SeededWalk, (), native, vector_entry_point=vector).stepped == "vectorised"
    single = examine(SeededWalk, ["step_skip"], native, vector_entry_point=vector)
    assert single.stepped == "single"
    assert any("'step_skip' wraps single environments" in each for each in single.warnings)
    assert any("has no vectorised form" in each for each in examine(SeededWalk, ["step_skip"], native).problems)


class Floats(SeededWalk):
    """Its flags are 0 and 1, its floats wider than declared, as a run takes them."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation.astype(np.float64), reward, int(terminated), int(truncated), info


class TwoAims(SeededWalk):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.array([reward, 1.0]), *rest


SOUND = {
    "SeededWalk": SeededWalk, "Doors": Doors, "Told": Told, "Carousel": Carousel,
    "Careless": Careless, "out of bounds": partial(Untrue, "later"), "Floats": Floats,
}  # fmt: skip
FAULTY = {
    "TwoAims": TwoAims, "Text": grid, "another shape": partial(Untrue, "first"),
    **{way: partial(FailingEnv, way) for way in ("raise", "nan_observation", "nan_reward")},
}  # fmt: skip


def refuses(run):
    try:
        run().train()
    except Exception:  # noqa: BLE001 — the environments raise what they like
        return True
    return False


def agree(examine, quick, make):
    """Train where the check finds no problem, and only there; return the problems."""
    try:
        report = examine(make)
        problems, notes = report.problems, report.warnings
    except MazeError as error:  # it cannot be built
        problems, notes = [str(error)], []
    models = [found[1] for each in notes if (found := re.search(r"--model (\w+)", each))]
    run = partial(quick, make, model=(models or ["mlp"])[0], overrides={"evaluation.max_episode_steps": 20})
    assert refuses(run) == bool(problems), problems
    return problems


@pytest.mark.parametrize("name", [*SOUND, *FAULTY])
def test_what_the_check_finds_is_what_a_run_refuses(examine, quick, name):
    assert bool(agree(examine, quick, (SOUND | FAULTY)[name])) == (name in FAULTY)


def compared(examine, quick, values, every=1):
    """Return the environments about which they differ."""
    differ = []
    for name, kind in list(single_environments(values).items())[::every]:
        if not name.startswith(("events", "close", "metadata")):  # a check films nothing
            try:
                agree(examine, quick, kind)
            except AssertionError as error:
                differ.append(f"{name}: {error}")
    return differ


def test_check_and_run_agree_about_the_zoo(examine, quick):
    assert compared(examine, quick, FEW, every=12) == []


@pytest.mark.slow
def test_check_and_run_agree_about_more_of_the_zoo(examine, quick):
    assert compared(examine, quick, tuple(VALUES), every=3) == []


def test_a_game_in_turns_is_not_told_that_it_repeats(monkeypatch):
    report = examine_environment(*env_config({"id": "pettingzoo.classic:tictactoe_v3"}))
    assert not any("identical" in each for each in report.warnings)


def test_the_advised_time_limit_leaves_the_episodes_whole(examine):
    (advice,) = [each for each in examine(partial(CountingEnv, 90)).warnings if "max_episode_steps" in each]
    assert "env.max_episode_steps=400" in advice
