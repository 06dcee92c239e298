"""Errors in code that is not Maze's: one line that names it, below the traceback of that code alone."""

import re
import sys
import textwrap
from pathlib import Path

import gymnasium
import pytest
from maze_devkit.envs import CountingEnv
from typer.testing import CliRunner

from maze_core.base.blame import blame, callers, their_traceback
from maze_core.base.errors import ConfigError
from maze_core.cli import main as command
from maze_core.cli.main import app

pytestmark = pytest.mark.usefixtures("known_plugins")

MINE = """
import sys
import gymnasium
import numpy as np
from gymnasium import spaces

class Good(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.left = 5
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), 0.0, self.left == 0, False, {}

class Constructor(Good):
    def __init__(self):
        self.load()
    def load(self):
        raise FileNotFoundError("no map here")  # Constructor

class Arguments(Good):
    def __init__(self):
        self.load(1, 2)  # Arguments
    def load(self, one):
        pass

class Chained(Good):
    def __init__(self):
        try:
            {}["map"]
        except KeyError as error:
            raise ValueError("a wrong map") from error  # Chained

class Exits(Good):
    def __init__(self):
        sys.exit(3)  # Exits

class Needs(Good):
    def __init__(self, size):
        pass

class Reset(Good):
    def reset(self, seed=None, options=None):
        return 1 / 0  # Reset

class ResetExits(Good):
    def reset(self, seed=None, options=None):
        sys.exit("no screen")  # ResetExits

class Step(Good):
    def step(self, action):
        return self.nothing  # Step

class StepExits(Good):
    def step(self, action):
        sys.exit(4)  # StepExits

class OldReset(Good):
    def reset(self, seed=None, options=None):
        return super().reset()[0]

class OldStep(Good):
    def step(self, action):
        observation, reward, over, _, info = super().step(action)
        return observation, reward, over, info

class Several:
    possible_agents = ["a", "b"]
    def observation_space(self, agent):
        return Good.observation_space
    def action_space(self, agent):
        return Good.action_space

class Nothing:
    pass

class Blind(Good):
    metadata = {"render_modes": ["rgb_array"]}
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def render(self):
        return None

class Broken(Blind):
    def render(self):
        raise OSError("no display")

for each in list(vars().values()):
    if isinstance(each, type) and each.__module__ == __name__:
        gymnasium.register(f"{each.__name__}-v0", each, max_episode_steps=20)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The module `mine` in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(gymnasium.registry)
    Path("mine.py").write_text(MINE)
    yield
    for name in set(gymnasium.registry) - before:
        gymnasium.registry.pop(name)
    for name in ("mine", "wrong"):
        sys.modules.pop(name, None)


def maze(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


def train(env_id, *more):
    small = ("--epochs", "1", "--epoch-length", "1", "--n-rollout-steps", "4", "--num-envs", "2", "--seed", "1")
    return maze("train", "ppo", "--env", env_id, "--run-dir", "run", "-q", *small, *more)


def traced(text):
    """The files that a traceback goes through."""
    return re.findall(r'(?m)^  File "(?:.*/)?([^/"]+)"', text)


def line_of(mark):
    return next(i for i, line in enumerate(MINE.splitlines(), 1) if line.endswith(f"# {mark}"))


RAISES = {
    "Constructor": (1, "the environment mine:Constructor-v0 cannot be built: FileNotFoundError: no map here (mine.py"),
    "Arguments": (1, "the environment mine:Arguments-v0 cannot be built: TypeError: Arguments.load() takes 2"),
    "Chained": (1, "the environment mine:Chained-v0 cannot be built: ValueError: a wrong map (mine.py"),
    "Exits": (1, "sys.exit was called (mine.py"),
    "Reset": (1, "environment 0 at the reset of episode 0 raised ZeroDivisionError: division by zero"),
    "ResetExits": (1, "environment 0 at the reset of episode 0 called sys.exit('no screen')"),
    "Step": (1, "environment 0 (episode 0, step 1) raised AttributeError: 'Step' object has no attribute 'nothing'"),
    "StepExits": (1, "environment 0 (episode 0, step 1) called sys.exit(4)"),
}


@pytest.mark.parametrize("wrappers", [(), ("--wrappers", "clip_reward")])
@pytest.mark.parametrize("name", RAISES)
def test_an_environment_that_raises(mine, name, wrappers):
    code, message = RAISES[name]
    result = train(f"mine:{name}-v0", *wrappers)
    assert result.exit_code == code, result.output
    assert len(re.findall(r"(?m)^error: ", result.stderr)) == 1
    assert f"error: {message}" in result.stderr
    assert set(traced(result.stderr)) == {"mine.py"}, result.stderr
    assert f'mine.py", line {line_of(name)}, in' in result.stderr
    assert "bug in Maze" not in result.stderr


@pytest.mark.parametrize("name", ["Constructor", "Step"])
def test_an_environment_that_raises_in_a_worker_process(mine, name):
    result = train(f"mine:{name}-v0", "--runner", "local", "--set", "runner.workers=1")
    assert result.exit_code == 1, result.output
    assert RAISES[name][1].partition(" (")[0] in result.stderr
    assert set(traced(result.stderr)) == {"mine.py"}, result.stderr


UPDATE = "Let reset(seed, options) return (observation, info) and step return"
FOREIGN = {
    "OldReset": ("old API of gym: its reset returns an observation alone", UPDATE),
    "OldStep": ("old API of gym: its step returns 4 values", "--set env.old_api=true"),
    "Several": ("Several is a PettingZoo environment with several agents", "--env mine:Several"),
    "Nothing": ("must inherit from the gymnasium.Env class", "mine.Nothing"),
    "Needs": ("env.kwargs: Needs.__init__() missing 1 required positional argument: 'size'", "env.kwargs.size="),
}


@pytest.mark.parametrize("wrappers", [(), ("--wrappers", "clip_reward")])
@pytest.mark.parametrize("name", FOREIGN)
def test_an_environment_of_another_interface(mine, name, wrappers):
    result = train(f"mine:{name}-v0", *wrappers)
    assert result.exit_code == 2, result.output
    assert len(re.findall(r"(?m)^error: env", result.stderr)) == 1
    for part in FOREIGN[name]:
        assert part in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", ["OldReset", "OldStep"])
def test_the_advice_for_an_old_interface_trains(mine, name):
    assert train(f"mine:{name}-v0", "--set", "env.old_api=true").exit_code == 0


def test_batches_are_recognised(quick):
    """EnvPool is not installed here, so a class of a module that is called so stands for its own."""
    pool = type("GymnasiumPool", (CountingEnv,), {"__module__": "envpool.classic_control"})
    with pytest.raises(ConfigError, match="GymnasiumPool is a batch of EnvPool's environments"):
        quick(pool).train()
    with pytest.raises(ConfigError, match="SyncVectorEnv is already vectorised"):
        quick(lambda: gymnasium.make_vec("CartPole-v1", 2, "sync")).train()
    several = type("simple_v3", (), {"__module__": "pettingzoo.mpe"})
    with pytest.raises(ConfigError, match="simple_v3 is a PettingZoo environment"):
        quick(several).train()


WRONG = {
    "syntax": ("x = 1 +\n", "SyntaxError: invalid syntax (wrong.py, line 1)"),
    "name": ("def f():\n    return undefined\nf()\n", "NameError: name 'undefined' is not defined (wrong.py, line 2)"),
    "exit": ("import sys\nsys.exit(4)\n", "SystemExit: 4 (wrong.py, line 2)"),
    "import": ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_in_the_users_module(mine, name):
    text, message = WRONG[name]
    Path("wrong.py").write_text(text)
    result = maze("envs", "check", "wrong:X-v0")
    assert result.exit_code == 2, result.output
    assert f"error: env.id: the module 'wrong' cannot be imported: {message}" in " ".join(result.stderr.split("\n"))
    assert set(traced(result.stderr)) == {"wrong.py"}, result.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Good", "it takes no render_mode"),
        ("Blind", "render() returned None, not a picture"),
        ("Broken", "OSError: no display"),
    ],
)
def test_a_film_of_what_cannot_render_is_refused_before_anything_is_played(mine, monkeypatch, name, reason):
    assert train(f"mine:{name}-v0").exit_code == 0
    played = []
    monkeypatch.setattr("maze_core.run.run.Run.evaluate", lambda *_, **__: played.append(1))
    for arguments in (("eval", "run"), ("rollout", "run")):
        result = maze(*arguments, "--video", "films")
        assert result.exit_code == 2, result.output
        assert re.search(rf"error: --video: mine:{name}-v0 cannot render images: {re.escape(reason)}", result.stderr)
        assert "Leave out --video" in result.stderr
        assert not Path("films").exists()
    assert not played


def module(name, text):
    """A function `f` of a module of that name."""
    space = {"__name__": name}
    exec(compile(textwrap.dedent(text), f"/somewhere/{name}.py", "exec"), space)
    return space["f"]


def test_a_bug_is_said_to_be_in_maze_only_where_it_is(monkeypatch, capsys):
    bug = module("maze_core.inner", "def f():\n    return {}['x']\n")
    said = shown(capsys, calling("maze_core.outer", bug))
    assert "This is a bug in Maze. Please report it" in said
    assert said.count("File ") >= 2

    in_torch = calling("maze_core.outer", calling("torch.nn", module("torch.functional", "def f():\n    1 / 0\n")))
    assert "This is a bug in Maze. Please" in shown(capsys, in_torch)

    between = calling("maze_core.outer", calling("theirs", bug))
    assert "This is a bug in Maze, or in theirs, which called it." in shown(capsys, between)

    theirs = calling("maze_core.outer", calling("pluggy.caller", module("theirs", "def f():\n    return {}['x']\n")))
    said = shown(capsys, theirs)
    assert "error: theirs.py, line 2 raised KeyError: 'x'" in said
    assert set(traced(said)) == {"theirs.py"}
    assert "bug" not in said

    in_their_torch = calling("theirs", module("torch.f", "def f(): 1/0"))
    said = shown(capsys, calling("maze_core.outer", calling("torch.nn", in_their_torch)))
    assert "raised ZeroDivisionError" in said
    assert "theirs.py" in said
    assert "bug" not in said


def calling(name, inner):
    """A function of a module of that name that calls another."""
    outer = module(name, "def f():\n    return inner()\n")
    outer.__globals__["inner"] = inner
    return outer


def shown(capsys, function):
    """What `maze` prints of an error that a function raises."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "app", function)
        with pytest.raises(SystemExit) as left:
            command.main()
    assert left.value.code == 1
    return capsys.readouterr().err


def test_nothing_is_theirs_in_an_error_without_a_traceback():
    error = ValueError("x")
    assert (their_traceback(error), blame(error), callers(error)) == ("", "", [])


def test_mujoco_writes_no_log_and_no_deprecations(tmp_path, monkeypatch, capfd):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    assert train("HalfCheetah-v5", "--preset", "none", "--set", "evaluation.n_episodes=1").exit_code == 0
    assert [each.name for each in tmp_path.iterdir()] == ["run"]
    printed = capfd.readouterr()
    assert "deprecated" not in printed.out + printed.err
