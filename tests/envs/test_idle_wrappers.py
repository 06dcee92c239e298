"""A wrapper that does not wrap the form of the run's environments is refused, or that form is used everywhere."""

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import SeededWalk
from maze_devkit.several import AgentsSource, Seats

from maze_core import ConfigError, Plugin, hookimpl
from maze_core.envs.builder import EnvBuilder
from maze_core.plugins.config.base import PluginConfig

WRAPS = {
    "single": ("make_env", gymnasium.wrappers.TransformReward),
    "vector": ("make_vector_env", gymnasium.wrappers.vector.TransformReward),
}


def wrapper(*forms):
    """A wrapper plugin that pays a hundred, in these forms alone."""

    def hook(form):
        def implementation(self, config):
            env = yield
            wraps = WRAPS[form][1] if form in WRAPS else None
            if env is None or wraps is None:
                return env
            return wraps(env, lambda reward: reward + 100)

        return hookimpl(wrapper=True)(implementation)

    names = {form: WRAPS[form][0] if form in WRAPS else form for form in forms}
    return type("Paying", (Plugin,), {"__doc__": "Pays.", **{names[form]: hook(form) for form in forms}})


class Single(Plugin):
    """Single environments."""

    @hookimpl
    def make_env(self):
        return SeededWalk()


class Both(Single):
    """Also natively vectorised ones."""

    @hookimpl
    def make_vector_env(self, num_envs):
        return gymnasium.vector.SyncVectorEnv([SeededWalk] * num_envs)


def builder(source, *wrappers, **more):
    parts = tuple(PluginConfig(name=f"w{n}").bound_to(each) for n, each in enumerate(wrappers))
    return EnvBuilder(PluginConfig(name="source").bound_to(source), parts, **more)


def formed(build):
    """What a run asks a builder for."""
    return build.agents_env(0) if build.several_agents else (build.vector_env(2), build(0))


AGENTS = AgentsSource.of(lambda: Seats(SeededWalk))
REFUSED = [
    (Single, ["vector"], "that are stepped one by one"),
    (Single, ["make_agents_env"], "with one agent"),
    (Both, ["make_agents_env"], "with one agent"),
    (AGENTS, ["vector"], "with several agents"),
]


@pytest.mark.parametrize(("source", "forms", "told"), REFUSED)
def test_a_wrapper_of_another_form_is_refused(source, forms, told):
    with pytest.raises(ConfigError, match=rf"wrappers.0: 'w0' would never be called: it does not wrap .* {told}"):
        formed(builder(source, wrapper(*forms)))


def test_wrappers_that_need_different_forms_are_refused():
    with pytest.raises(ConfigError, match=r"wrappers.1: 'w1' would never be called.*one by one"), pytest.warns():
        formed(builder(Both, wrapper("single"), wrapper("vector")))


def test_a_planner_needs_single_environments():
    with pytest.raises(ConfigError, match="one by one"):
        formed(builder(Both, wrapper("vector"), vectorised=False))


@pytest.mark.parametrize("forms", [["vector"], ["single", "vector"], ["vector", "make_agents_env"]])
def test_a_wrapper_of_vectorised_environments_is_there_when_one_acts(forms):
    many, one = formed(builder(Both, wrapper(*forms)))
    for env, action in ((many, np.zeros(2, np.int64)), (one, 0)):
        env.reset(seed=1)
        assert np.all(np.asarray(env.step(action)[1]) > 50)


@pytest.mark.parametrize("forms", [["single"], ["single", "make_agents_env"], ["make_agents_env"]])
def test_what_wraps_several_agents_is_taken(forms):
    assert formed(builder(AGENTS, wrapper(*forms))) is not None


def test_a_run_is_refused_before_its_folder_is_there(quick, tmp_path):
    with pytest.raises(ConfigError, match=r"Paying.* would never be called"):
        _ = quick(SeededWalk, wrappers=[wrapper("vector")], run_dir=tmp_path / "mine").run
    assert not (tmp_path / "mine").exists()
