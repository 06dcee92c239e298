"""Code that a file names: a stranger's run, preset or sweep imports and calls nothing that the user has not named."""

import shutil
import sys
import types
from pathlib import Path

import gymnasium
import pytest
import yaml
from typer.testing import CliRunner

from maze_core.base.local_modules import is_current_folder
from maze_core.cli.main import app
from maze_core.plugins.config.checksummed_yaml import checksum, checksummed
from maze_core.plugins.config.record import read_record, with_configurations, write_record

CARTS = """
from pathlib import Path
import gymnasium
Path("imported").touch()
gymnasium.register("Cart-v0", "carts:Cart", max_episode_steps=20)
class Cart(gymnasium.envs.classic_control.CartPoleEnv):
    def __init__(self, **arguments):
        import sys
        if "carts_watch" in sys.modules:
            sys.modules["carts_watch"].built.append({k: v for k, v in arguments.items() if k != "render_mode"})
        super().__init__(**arguments)
"""
SMALL = ["--preset", "none", "-q", "--seed", "1", "--epochs", "1", "--epoch-length", "1", "--n-rollout-steps", "4"]
SMALL += ["--num-envs", "2", "--set", "evaluation.n_episodes=1", "--set", "callbacks.tensorboard=null"]
COMMANDS = {
    "eval": ["eval", "run", "-n", "1"],
    "rollout": ["rollout", "run", "--episodes", "1"],
    "resume": ["resume", "run", "--set", "algorithm.n_epochs=2"],
    "init-from": ["train", "ppo", "--init-from", "run", *SMALL],
    "view": ["view", "run", "--episodes", "1", "--no-open"],
    "export": ["export", "run", "--out", "policy.pt2"],
    "profile": ["profile", "run", "--seconds", "0.1"],
}


def maze(*arguments):
    """What a new process would do: it has imported nothing from the current folder."""
    sys.modules.pop("carts", None)
    gymnasium.registry.pop("Cart-v0", None)
    sys.path[:] = [entry for entry in sys.path if not is_current_folder(entry)]
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != "maze_core.base.local_modules"]
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    done = CliRunner().invoke(app, ["train", "ppo", "--env", "CartPole-v1", "--run-dir", str(folder / "run"), *SMALL])
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.fixture
def world(tmp_path, trained, monkeypatch, known_plugins):
    """A folder with a run in it, and a module whose import leaves a trace."""
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "carts.py").write_text(CARTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("carts", None)


def name_in(run, **env):
    """Let a run's configuration name another environment, with the checksums that belong to it."""
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["env"] = {"name": "gymnasium", **env}
    text = checksummed(yaml.safe_dump(config))
    path.write_text(text)
    write_record(run, with_configurations(read_record(run), [checksum(text)]))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_strangers_run_does_not_import_a_module_of_the_current_folder(world, command):
    name_in(world / "run", id="carts:Cart-v0")
    done = maze(*COMMANDS[command])
    assert done.exit_code == 2, done.output
    assert "needs your permission" in done.stderr
    assert not (world / "imported").exists()


@pytest.mark.parametrize("command", ["eval", "rollout", "resume", "view", "profile"])
def test_it_does_when_the_user_repeats_the_name(world, command):
    name_in(world / "run", id="carts:Cart-v0")
    done = maze(*COMMANDS[command], "--set", "env.id=carts:Cart-v0")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", ["init-from", "profile"])
def test_after_what_the_message_says_it_is_the_same_environment(world, command):
    """`--set env.id` would replace the whole environment of `--init-from`, arguments included."""
    name_in(world / "run", id="carts:Cart-v0", kwargs={"sutton_barto_reward": True})
    said = maze(*COMMANDS[command]).stderr.partition("once: maze ")[2].split()
    assert maze(*said).exit_code == 0
    Path("imported").unlink()
    built = []
    sys.modules["carts_watch"] = types.SimpleNamespace(built=built)
    try:
        done = maze(*COMMANDS[command])
    finally:
        del sys.modules["carts_watch"]
    assert done.exit_code == 0, done.output
    assert built
    assert all(each == {"sutton_barto_reward": True} for each in built)


@pytest.mark.parametrize(
    "options",
    [
        ["--env", "minigrid:Cart-v0"],
        ["--env", "typer:Cart-v0"],
        ["--env", "CartPole-v1", "--wrappers", "tqdm:Wrap"],
        ["--env-source", "pettingzoo", "--env", "packaging:make"],
    ],
)
def test_a_module_that_an_installed_one_hides_is_said(world, options):
    name = options[-1].partition(":")[0]
    shutil.copy("carts.py", f"{name}.py")
    done = maze("train", "ppo", *options, "--run-dir", "new", *SMALL)
    assert done.exit_code == 2, done.output
    assert f"An installed package {name} was imported. Your module {name}" in done.stderr


@pytest.mark.parametrize("module", ["project", "plain_folder", "carts2"])
def test_a_folder_that_is_no_package_is_no_module_to_permit(world, module):
    Path(module).mkdir()
    name_in(world / "run", id=f"{module}:Cart-v0")
    done = maze("eval", "run")
    assert "Install the package that provides it, or run where Python can find it" in done.stderr


def test_a_listed_module_without_environments_is_said(world):
    Path("teams.py").touch()
    done = maze("envs", "list", "teams:")
    assert "'teams' was imported, and registers none that fits" in done.stderr


def test_a_run_of_ones_own_is_opened_without_repeating_it(world):
    shutil.rmtree("run")
    done = maze("train", "ppo", "--env", "carts:Cart-v0", "--run-dir", "run", *SMALL)
    assert done.exit_code == 0, done.output
    for command in ("eval", "rollout", "resume"):
        done = maze(*COMMANDS[command])
        assert done.exit_code == 0, done.output


CALLS = {
    "os:system": {"command": "touch called"},
    "shutil:rmtree": {"path": "run/checkpoints"},
    "numpy:savetxt": {"fname": "called", "X": [1]},
}
"""Functions, with arguments that they take."""


@pytest.mark.parametrize("source", ["pettingzoo", "gymnasium"])
@pytest.mark.parametrize("value", CALLS)
def test_a_name_of_something_else_is_not_called(world, value, source):
    pytest.importorskip("pettingzoo")
    name_in(world / "run", name=source, id=value, kwargs=CALLS[value])
    before = sorted(world.rglob("*"))
    done = maze("eval", "run")
    assert done.exit_code == 2, done.output
    assert "error: env.id" in done.stderr
    assert sorted(world.rglob("*")) == before


@pytest.mark.parametrize("place", ["presets/CartPole-v1.yaml", "presets/ppo/CartPole-v1.yaml"])
@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"name": "pettingzoo", "id": "os:system", "kwargs": {"command": "touch called"}}, "of Python itself"),
        ({"id": "carts:Cart-v0"}, "needs your permission"),
    ],
)
def test_a_preset_of_the_current_folder_names_no_code(world, place, env, message):
    Path(place).parent.mkdir(parents=True)
    Path(place).write_text(yaml.safe_dump({"algorithm": {"name": "ppo"}, "env": env}))
    done = maze("train", "ppo", "--preset", "CartPole-v1", "--run-dir", "new", *SMALL[2:])
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert not (world / "imported").exists()
    assert not (world / "called").exists()


FIRST = {"wrappers": [{"name": "normalize_observations", "policy": "carts:Best", "estimate_steps": 4}]}


@pytest.mark.parametrize("place", ["presets/CartPole-v1.yaml", "mine.yaml", "experiments/mine.yaml"])
def test_a_file_names_no_class_of_a_policy(world, place):
    """Not even where the user may use the module: only the command line names a class."""
    Path("carts.py").write_text(CARTS + "from maze_core.collect.policies.random import RandomPolicy as Best\n")
    assert maze("envs", "list", "carts:").exit_code == 0
    Path("imported").unlink()
    options = {
        "presets/CartPole-v1.yaml": ["--preset", "CartPole-v1", *SMALL[2:]],
        "mine.yaml": ["--config", "mine.yaml", *SMALL],
        "experiments/mine.yaml": ["--experiment", "mine", *SMALL],
    }[place]
    Path(place).parent.mkdir(exist_ok=True)
    Path(place).write_text(yaml.safe_dump({"algorithm": {"name": "ppo"}, **FIRST}))
    command = ["train", "ppo", "--env", "CartPole-v1", *options, "--run-dir"]
    done = maze(*command, "new")
    assert done.exit_code == 2, done.output
    assert "unknown policy 'carts:Best'" in done.stderr
    assert not (world / "imported").exists()
    assert maze(*command, "newer", "--set", "wrappers.0.policy=carts:Best").exit_code == 0


@pytest.mark.parametrize("option", ["--config", "--experiment"])
def test_a_file_that_the_user_names_may_name_a_module(world, option):
    Path("experiments").mkdir()
    Path("experiments/mine.yaml").write_text(yaml.safe_dump({"algorithm": "ppo", "env": "carts:Cart-v0"}))
    value = "mine" if option == "--experiment" else "experiments/mine.yaml"
    done = maze("train", "ppo", option, value, "--run-dir", "new", *SMALL)
    assert done.exit_code == 0, done.output
    assert maze("eval", "new").exit_code == 0


def test_a_strangers_sweep_imports_no_module_of_the_current_folder(world):
    plan = {"algorithm": "ppo", "env": "carts:Cart-v0", "over": {"algorithm.lr": [1e-3]}, "searcher": {"name": "grid"}}
    Path("lr").mkdir()
    Path("lr/sweep.yaml").write_text(yaml.safe_dump(plan))
    done = maze("sweep", "--dir", "lr", "-q")
    assert done.exit_code == 2, done.output
    assert "needs your permission" in done.stderr
    assert not (world / "imported").exists()


def test_a_listed_module_is_imported_and_remembered(world):
    done = maze("envs", "list", "carts:")
    assert done.exit_code == 0, done.output
    assert "carts:Cart-v0" in done.output
    name_in(world / "run", id="carts:Cart-v0")
    assert maze("eval", "run", "-n", "1").exit_code == 0
