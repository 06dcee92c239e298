"""Wrapper classes from anywhere: named by whoever starts a command, never by a file alone."""

import sys

import gymnasium
import pytest
from gymnasium import spaces
from maze_wrappers.of_others import GymnasiumWrapper, GymnasiumWrapperConfig
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.envs.builder import EnvBuilder
from maze_core.plugins.config.assembly import assemble, dump, env_config, load_run_config
from maze_core.run.context import RunContext

MODULE = """
import gymnasium

print("imported", __name__)


class Offset(gymnasium.RewardWrapper):
    def __init__(self, env, by=1.0):
        super().__init__(env)
        self.by = by

    def reward(self, reward):
        return float(reward) + self.by


class OfThisPackage(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        assert type(env).__name__ == "CartPoleEnv"


class Reaching(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        self.half = env.length / 2


class Failing(gymnasium.Wrapper):
    def __init__(self, env):
        super().__init__(env)
        assert env is None, "a fault of its own"


def function(env):
    return env
"""
NAME = "wrappers_of_a_user:Offset"


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "wrappers_of_a_user.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("wrappers_of_a_user", None)


def test_a_class_is_named_by_module_and_class():
    env, wrappers = env_config(
        {"name": "gymnasium", "id": "CartPole-v1"},
        [NAME, "step_skip"],
        ["wrappers.0.kwargs.by=2", "wrappers.1.steps=2"],
    )
    assert wrappers[0] == GymnasiumWrapperConfig(name="gymnasium", id=NAME, kwargs={"by": 2})
    built = EnvBuilder(env, wrappers)(0)
    built.reset(seed=0)
    assert built.step(0)[1] == 6


@pytest.mark.parametrize(
    ("wrapper", "message"),
    [
        ({"id": "no_such_module:X"}, "'no_such_module' cannot be imported"),
        ({"id": ".:X"}, "'.' is not a module name"),
        ({"id": "wrappers_of_a_user:Ofset"}, "has no 'Ofset'"),
        ({"id": "wrappers_of_a_user:function"}, "is not a class that derives from gymnasium.Wrapper"),
        ({"id": "os:system"}, "'os' is a module of Python itself"),
        ({"id": "gymnasium.wrappers.vector:ClipReward"}, "is not a class that derives from gymnasium.Wrapper"),
        ({"id": NAME, "kwargs": {"bye": 1}}, r"^wrappers.0.kwargs: wrappers_of_a_user:Offset: .*'bye'"),
    ],
)
def test_what_is_no_wrapper_is_said(wrapper, message):
    config = GymnasiumWrapperConfig(name="gymnasium", **wrapper)
    env, _ = env_config({"name": "gymnasium", "id": "CartPole-v1"})
    with pytest.raises(ConfigError, match=message):
        EnvBuilder(env, (config,))(0)


@pytest.mark.parametrize(
    ("name", "said"),
    [("OfThisPackage", r"AssertionError.*\(wrappers_of_a_user.py, line \d+\)"), ("Reaching", "AttributeError.*length")],
)
def test_a_class_that_takes_only_the_bare_environment_is_told_from_one_that_fails(name, said):
    env, _ = env_config({"name": "gymnasium", "id": "CartPole-v1"})
    config = GymnasiumWrapperConfig(name="gymnasium", id=f"wrappers_of_a_user:{name}")
    with pytest.raises(ConfigError, match=rf"^wrappers.0.id: .*:{name} takes the environment itself.*{said}") as caught:
        EnvBuilder(env, (config,))(0)
    assert "def make() -> gymnasium.Env" in caught.value.hint
    failing = GymnasiumWrapperConfig(name="gymnasium", id="wrappers_of_a_user:Failing")
    with pytest.raises(AssertionError, match="a fault of its own"):
        EnvBuilder(env, (failing,))(0)


def test_returns_stay_raw_and_a_run_goes_on_where_the_class_is_named_again(quick, tmp_path):
    with quick("CartPole-v1", wrappers=[{"name": NAME, "kwargs": {"by": 5}}], run_dir=tmp_path / "run") as context:
        context.train()
        assert context.evaluate()["eval/return_max"] < 400  # with the wrapper's rewards it is six for each step
    advice = f'\nIf you trust it, repeat it: overrides={{"wrappers.0.id": "{NAME}"}}'
    for open_again in (
        lambda said: RunContext.open(tmp_path / "run", overrides=said),
        lambda said: RunContext.reopen(tmp_path / "run", overrides={"algorithm.n_epochs": 3} | said),
        lambda said: RunContext("CartPole-v1", init_from=tmp_path / "run", silent=True, overrides=said),
    ):
        with pytest.raises(ConfigError, match=f"would import and run the class '{NAME}'") as refusal:
            open_again({})
        assert str(refusal.value).endswith(advice)
        with open_again({"wrappers.0.id": NAME}) as advised:  # what the advice says
            assert advised.config.wrappers[0].kwargs == {"by": 5}
    with RunContext.reopen(tmp_path / "run", {"algorithm.n_epochs": 3, "wrappers.0.id": NAME}) as again:
        assert again.train().epochs == 3
    with quick("CartPole-v1", wrappers=[NAME]).load(tmp_path / "run") as loaded:
        assert loaded.config.wrappers[0].kwargs == {"by": 5}
        assert loaded.make_env().by == 5


HOSTILE = [
    f"wrappers: ['{NAME}']",
    f"wrappers: [step_skip, {{name: '{NAME}'}}]",
    f"wrappers: [{{name: gymnasium, id: '{NAME}'}}]",
    f"{{wrappers: [{{id: '{NAME}', name: gymnasium, kwargs: {{by: 3}}}}]}}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_file_runs_no_class_of_its_choice(text, tmp_path, capsys):
    file = tmp_path / "stranger.yaml"
    file.write_text(text)
    flags = {"algorithm.name": "ppo", "env.id": "CartPole-v1"}
    for overrides in ((), ["wrappers.1.kwargs.by=1"], ["wrappers.0.id=gymnasium.wrappers:ClipReward"]):
        if overrides and "step_skip" in text:
            continue
        with pytest.raises(ConfigError, match="needs your permission"):
            assemble(files=[file], flags=flags, overrides=overrides)
    with pytest.raises(ConfigError, match="needs your permission"):
        load_run_config(file)
    with pytest.raises(ConfigError, match="needs your permission"):
        assemble(parent=file, flags=flags)
    assert "imported" not in capsys.readouterr().out
    place = "wrappers.1.id" if "step_skip" in text else "wrappers.0.id"
    config = assemble(files=[file], flags=flags, overrides=[f"{place}={NAME}"])
    assert NAME in dump(config)
    # Shown, it runs nothing either.
    assert "imported" not in capsys.readouterr().out


def test_a_plan_runs_no_class_of_its_choice(tmp_path):
    plan = {
        "config": "{wrappers: ['NAME']}",
        "overrides": "{wrappers.0: {name: gymnasium, id: 'NAME'}}",
        "over": "{wrappers.0.id: ['NAME']}",
    }
    for key, value in plan.items():
        over = {} if key == "over" else {"over": "{algorithm.lr: [0.1]}"}
        parts = {"algorithm": "ppo", "env": "CartPole-v1", key: value.replace("NAME", NAME), **over}
        folder = tmp_path / key
        folder.mkdir()
        (folder / "sweep.yaml").write_text("\n".join(f"{name}: {each}" for name, each in parts.items()))
        for arguments in (["--dir", str(folder)], ["--plan", str(folder / "sweep.yaml")]):
            done = CliRunner().invoke(app, ["sweep", *arguments])
            assert done.exit_code == 2
            assert "needs your permission" in done.output
            assert "imported" not in done.output


def test_the_plugin_is_bundled():
    from maze_core.plugins.discovery import load

    assert load("wrapper", "gymnasium") is GymnasiumWrapper


BREAKING = {
    "a module that is missing": ("import not_there_at_all", "not_there_at_all'", None),
    "a module of a package": ("import not_there.inside", "the module 'not_there'", None),
    "a package that raises": ("import breaking_by_itself", "replace the package breaking_by_itself", RuntimeError),
    "one that was built for others": ("from breaking_by_itself import a", "breaking_by_itself, which", ImportError),
    "what gymnasium itself asks for": (
        "raise gymnasium.error.DependencyNotInstalled('no cv2, run `pip install \"gymnasium[other]\"`')",
        'Install it: pip install "gymnasium[other]"',
        None,
    ),
}


@pytest.mark.parametrize("as_class", [False, True])
@pytest.mark.parametrize(("line", "said", "raised"), BREAKING.values(), ids=list(BREAKING))
def test_a_package_of_a_wrapper_that_is_missing_or_breaks_is_named(tmp_path, monkeypatch, line, said, raised, as_class):
    error = "" if raised is None else f"raise {raised.__name__}('numpy.dtype size changed')"
    (tmp_path / "breaking_by_itself.py").write_text(error)
    module = f"needs_{abs(hash((line, as_class)))}"
    text = "import gymnasium\nclass Needy(gymnasium.Wrapper):\n    def __init__(self, env):\n"
    (tmp_path / f"{module}.py").write_text(f"{text}        super().__init__(env)\n        {line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "breaking_by_itself", raising=False)
    wrapper = getattr(__import__(module), "Needy") if as_class else f"{module}:Needy"  # noqa: B009
    with pytest.raises(ConfigError) as caught, RunContext("CartPole-v1", "a2c", wrappers=[wrapper]) as context:
        _ = context.run
    assert "Needy needs " in str(caught.value)
    assert said in str(caught.value)
    assert "runner" not in str(caught.value)
    assert "wrappers" in str(caught.value)


@pytest.mark.parametrize(
    ("wrapper", "said"),
    [
        ("gymnasium.wrappers:NormalizeObservation", "refuses this environment: ValueError: NormalizeObservation"),
        ("gymnasium.wrappers:RescaleAction", "refuses this environment: "),
    ],
)
def test_a_wrapper_of_gymnasium_that_refuses_an_environment_is_named(wrapper, said):
    kwargs = {"min_action": 0.0, "max_action": 1.0} if "Rescale" in wrapper else {}
    named = {"name": "gymnasium", "id": wrapper, "kwargs": kwargs}
    with pytest.raises(ConfigError, match=said) as caught, RunContext(Pair, "a2c", wrappers=[named]) as context:
        _ = context.run
    assert "runner" not in str(caught.value)


class Pair(gymnasium.Env):
    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (2,))})
    action_space = spaces.Discrete(2)
