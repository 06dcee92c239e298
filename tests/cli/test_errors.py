"""Wrong input is one message and exit code 2; a run that fails is exit code 1; both say what to do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_devkit.probes import Workshop
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.plugins.config.assembly import assemble
from maze_core.run import api
from tests.forked import Forked

pytestmark = pytest.mark.usefixtures("known_plugins")
SMALL = {"algorithm.n_epochs": 2, "algorithm.epoch_length": 1, "algorithm.n_rollout_steps": 4, "seed": 1}
SMALL |= {"evaluation.n_episodes": 1, "callbacks.console": None, "algorithm.num_envs": 2}
TEXT = spaces.Dict({"note": spaces.Text(5), "x": spaces.Box(0, 1)})


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    api.train(assemble("ppo", "CartPole-v1", "none", flags=SMALL), folder)
    return folder


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A working directory with files to be named."""
    monkeypatch.chdir(tmp_path)
    Path("list.yaml").write_text("- a\n- b\n")
    Path("broken.yaml").write_text("algorithm: {lr: 1\nseed: 2\n")
    Path("twice.yaml").write_text("seed: 1\nseed: 2\n")
    Path("other.yaml").write_text("algorithm: {name: a2c}\n")
    Path("unknown.yaml").write_text("algorithms: {lr: 1}\n")
    Path("binary.yaml").write_bytes(b"\xff\xfe\x00")
    Path("full").mkdir()
    Path("full", "a").touch()
    Path("file").touch()
    return tmp_path


def maze(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


def check(result, *parts):
    """Exit code 2, one message that holds every part, nothing on stdout, no traceback."""
    assert result.exit_code == 2, result.output
    message = result.stderr
    assert result.stdout == ""
    assert "Traceback" not in message
    assert len(re.findall(r"(?im)^error:", message)) == 1, message
    for part in parts:
        assert part in message, message


def train(*arguments):
    return ("train", "ppo", "--env", "CartPole-v1", *arguments)


def setting(*assignments):
    return train(*(part for each in assignments for part in ("--set", each)))


WRONG = {
    "unknown key": (setting("algorithm.lrr=1"), ["algorithm.lrr", "did you mean lr?"]),
    "unknown part": (setting("algorithmm.lr=1"), ["algorithmm", "algorithm"]),
    "unknown flag": (train("--lrr", "1"), ["--lrr"]),
    "unknown env": (("train", "ppo", "--env", "CartPol-v1"), ["env.id", "'CartPol-v1'", "CartPole-v1"]),
    "unknown module": (("train", "ppo", "--env", "no_such_module:X-v0"), ["env.id", "no_such_module"]),
    "unknown algorithm": (("train", "pppo", "--env", "CartPole-v1"), ["unknown algorithm 'pppo'", "ppo"]),
    "unknown command": (("trian", "ppo"), ["trian"]),
    "unknown model": (train("--model", "mpl"), ["unknown model 'mpl'", "mlp"]),
    "unknown runner": (train("--runner", "lokal"), ["unknown runner 'lokal'", "local"]),
    "unknown wrapper": (train("--wrappers", "shout"), ["unknown wrapper 'shout'"]),
    "unknown callback": (setting("callbacks.konsole={}"), ["unknown callback 'konsole'", "console"]),
    "unknown preset": (train("--preset", "CartPol-v1"), ["preset", "CartPol-v1", "CartPole-v1"]),
    "no env": (("train", "ppo"), ["env.id", "required"]),
    "wrong type": (setting("algorithm.lr=fast"), ["algorithm.lr: must be a number, got 'fast'"]),
    "wrong type of a flag": (train("--lr", "fast"), ["lr", "fast"]),
    "wrong type of a list": (setting("model.hidden=wide"), ["model.hidden", "wide"]),
    "fraction of a step": (train("--steps", "1.5"), ["steps: must be a whole number, got 1.5"]),
    "negative steps": (train("--steps", "-5"), ["steps", "-5"]),
    "no steps": (train("--steps", "0"), ["steps", "0"]),
    "negative epochs": (train("--epochs", "-1"), ["epochs", "-1"]),
    "negative seed": (train("--seed", "-1"), ["seed", "-1"]),
    "no environments": (train("--num-envs", "0"), ["num_envs", "0"]),
    "not a number": (setting("algorithm.lr=.nan"), ["algorithm.lr"]),
    "infinite": (setting("algorithm.gamma=.inf"), ["algorithm.gamma"]),
    "two mistakes": (setting("algorithm.lr=-1", "model.hiden=[1]"), ["algorithm.lr", "model.hiden"]),
    "no value": (train("--set", "algorithm.lr"), ["'algorithm.lr' is not of the form path=value"]),
    "no path": (train("--set", "=3"), ["'=3' is not of the form path=value"]),
    "hole in a path": (train("--set", "algorithm..lr=3"), ["is not of the form path=value"]),
    "set twice": (train("--lr", "0.1", "--set", "algorithm={lr: 0.2}"), ["algorithm.lr: is set twice, to 0.2"]),
    "two environments": (train("--set", "env=Pendulum-v1"), ["env.id: is set twice", "'Pendulum-v1'", "'CartPole-v1'"]),
    "two numbers of epochs": (train("--epochs", "3", "--n-epochs", "4"), ["algorithm.n_epochs: is set twice"]),
    **{
        f"two environments of {command}": (
            (*command.split(), "--env", "CartPole-v1", "--set", "env.id=Pendulum-v1"), ["env.id: is set twice"]
        )
        for command in ("sweep ppo --over algorithm.lr=0.1,0.2", "rollout --policy random", "profile ppo")
    },
    "path through a value": (setting("algorithm.lr.x=3"), ["algorithm.lr"]),
    "value that is no YAML": (train("--set", "algorithm.lr=[1"), ["not valid YAML"]),
    "missing file": (train("-c", "missing.yaml"), ["missing.yaml", "no such file"]),
    "YAML that is a list": (train("-c", "list.yaml"), ["list.yaml", "must contain a mapping"]),
    "broken YAML": (train("-c", "broken.yaml"), ["broken.yaml", "not valid YAML, line 2"]),
    "key given twice": (train("-c", "twice.yaml"), ["twice.yaml", "'seed' appears twice"]),
    "file of another algorithm": (train("-c", "other.yaml"), ["other.yaml", "a2c"]),
    "unknown key in a file": (train("-c", "unknown.yaml"), ["algorithms"]),
    "file that is no text": (train("-c", "binary.yaml"), ["binary.yaml"]),
    "wrong argument of an env": (setting("env.kwargs={size: 5}"), ["env.kwargs", "size"]),
    "folder in use": (train("--run-dir", "full"), ["--run-dir: full is not empty"]),
    "folder that is a file": (train("--run-dir", "file"), ["--run-dir: cannot create file"]),
    "folder below a file": (train("--run-dir", "file/below"), ["--run-dir: cannot create file"]),
    "folder nobody may write": (train("--run-dir", "/proc/nobody"), ["--run-dir: cannot create /proc/nobody"]),
    "source that is no run": (train("--init-from", "full"), ["full is not a run directory"]),
    "no critic": (setting("model.critic=none"), ["model.critic", "needs a critic"]),
    "schedule without an end": (setting("algorithm.lr_schedule=linear", "steps=null"), ["algorithm.lr_schedule"]),
    "image for an mlp": (("train", "ppo", "--env", "Image-v0"), ["'observation'", "cnn"]),
    "space nobody supports": (("train", "ppo", "--env", "Text-v0"), ["'note'", "Text"]),
    **{
        f"{command} of a class": ((*command.split(), "mine:Go"), ["'mine:Go' is not a run", "RUN --policy mine:Go"])
        for command in ("eval", "resume", "rollout", "view", "serve", "config show", "profile", "export --out x.onnx",
                        "runs list", "runs watch")
    },
    "eval in another environment": (("eval", "x", "--env", "y"), ["--set env.id=ID", "maze rollout --policy NAME"]),
    "eval of an algorithm": (("eval", "ppo"), ["but an algorithm", "maze train ppo"]),
    "resume of nothing": (("resume", "nowhere"), ["nowhere is not a run directory"]),
    "resume of a folder": (("resume", "full"), ["full is not a run directory"]),
    "eval of nothing": (("eval", "nowhere"), ["nowhere is not a run directory"]),
    "no episodes": (("eval", "nowhere", "-n", "0"), ["-n"]),
    "show of nothing": (("config", "show", "nowhere"), ["nowhere"]),
    "schema of nothing": (("config", "schema", "pppo"), ["unknown algorithm 'pppo'"]),
    "check of nothing": (("envs", "check", "CartPol-v1"), ["CartPol-v1"]),
}  # fmt: skip


@pytest.fixture
def odd_environments():
    image, move = spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Discrete(2)
    gymnasium.register("Image-v0", lambda: SpacesEnv(image, move))
    gymnasium.register("Text-v0", lambda: SpacesEnv(TEXT, move))
    yield
    for name in ("Image-v0", "Text-v0"):
        gymnasium.registry.pop(name)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(files, odd_environments, name):
    arguments, parts = WRONG[name]
    check(maze(*arguments), *parts)
    assert not Path("runs").exists(), "a run directory was made before the input was checked"


def test_no_gpu_is_said_so(files, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    check(maze(*train("--device", "cuda")), "algorithm.device", "--device cpu")


SAVED = {
    "a finished run": ((), ["is finished (2 epochs, 16 steps)", "--set algorithm.n_epochs=4"]),
    "another algorithm": (("--set", "algorithm.name=a2c"), ["was trained by ppo", "--init-from"]),
    "another network": (("--set", "model.hidden=[3]"), ["model.hidden cannot change here", "does not fit then"]),
    "another env": (("--set", "env.id=Acrobot-v1"), ["observation_space was", "and is now"]),
    "unknown key": (("--set", "algorithm.lrr=1"), ["algorithm.lrr", "lr"]),
    "other environments side by side": (("--set", "algorithm.num_envs=5"), ["algorithm.num_envs"]),
    "no such checkpoint": (("--checkpoint", "first"), ["has no checkpoint first", "best, last, previous"]),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_run_cannot_go_on(run_dir, name):
    arguments, parts = SAVED[name]
    check(maze("resume", run_dir, *arguments), *parts)


def test_a_damaged_checkpoint_offers_the_one_before_it(tmp_path):
    api.train(assemble("ppo", "CartPole-v1", "none", flags=SMALL), tmp_path / "run")
    model = tmp_path / "run" / "checkpoints" / "last" / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1])
    result = maze("resume", tmp_path / "run", "--set", "algorithm.n_epochs=3")
    check(result, "model.safetensors is damaged", "Next: the same command with --checkpoint")
    name = result.stderr.split("--checkpoint ")[1].split()[0]
    assert name == "previous"
    again = maze("resume", tmp_path / "run", "--checkpoint", name, "--set", "algorithm.n_epochs=3")
    assert again.exit_code == 0, again.output
    check(maze("eval", tmp_path / "run", "--checkpoint", "first"), "has no checkpoint first")


@pytest.mark.parametrize("part", ["env", "model"])
def test_a_run_of_ready_objects_says_what_it_needs(tmp_path, quick, part):
    """A factory or a class cannot be found in a file: the command line says where they were and what to do."""
    from torch import nn

    class Encoder(nn.Module):
        out_features = 4

        def __init__(self, space):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, obs):
            return self.layer(obs["observation"])

    context = quick(Workshop, model="template") if part == "env" else quick("CartPole-v1", model=Encoder)
    context.train()
    context.close()
    wanted = "maze_devkit.probes:Workshop" if part == "env" else ".Encoder"
    for command in ("resume", "eval"):
        check(maze(command, context.run_dir), f"{part}: this run's", wanted, "from Python")


BROKEN = """
import gymnasium
from gymnasium import spaces

class Broken(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, seed=None, options=None):
        self.left = 5
        return self.observation_space.sample(), {}

    def step(self, action):
        self.left -= 1
        Broken.steps += 1
        if Broken.steps > 60:
            self.fall_apart()
        return self.observation_space.sample(), 1.0, self.left == 0, False, {}

    def fall_apart(self):
        raise OSError("the wheel came off")  # this line

gymnasium.register("Broken-v0", Broken)
"""


@pytest.mark.parametrize("runner", ["dev", "local"])
def test_an_environment_that_raises(tmp_path, runner):
    """Exit code 1, the user's own traceback down to her line, the environment and the last checkpoint named."""
    (tmp_path / "broken.py").write_text(BROKEN)
    arguments = ["train", "ppo", "--env", "broken:Broken-v0", "--run-dir", "run", "--runner", runner, "--epochs", "50"]
    arguments += ["--n-rollout-steps", "4", "--epoch-length", "1", "--num-envs", "2"]
    arguments += ["--set", "evaluation.n_episodes=1", "--set", "callbacks.console=null"]
    process = Forked(arguments, tmp_path, os.environ)
    _, said = process.communicate(timeout=120)
    line = BROKEN.splitlines().index('        raise OSError("the wheel came off")  # this line') + 1
    assert process.returncode == 1, said
    assert f'broken.py", line {line}, in fall_apart' in said
    assert re.search(r"(?m)^error: environment [01] \(episode \d+, step \d+\) raised OSError: the wheel", said)
    assert said.count("error: environment") == 1
    last = said.splitlines()[-1]
    assert re.search(rf"checkpoints/last, of epoch \d+\. Next: maze resume {tmp_path}/run$", last)
    assert "bug in Maze" not in said


def test_wrong_input_in_a_process(tmp_path):
    """The first thing a newcomer gets wrong, as she sees it."""
    process = Forked(setting("algorithm.lrr=1"), tmp_path, os.environ)
    shown, said = process.communicate(60)
    assert (process.returncode, shown) == (2, "")
    assert said == "error: algorithm.lrr: unknown key; did you mean lr?\n"
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_are_not_finite_end_a_run_with_1(tmp_path):
    (tmp_path / "broken.py").write_text(
        BROKEN.replace("self.fall_apart()", "return [float('nan'), 0], 0.0, False, False, {}")
    )
    from maze_core.base.local_modules import allow_local_modules

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setattr(sys, "path", list(sys.path))
        allow_local_modules()
        result = maze("train", "ppo", "--env", "broken:Broken-v0", "--run-dir", "run", "-q", "--n-rollout-steps", "100")
    sys.modules.pop("broken")
    gymnasium.registry.pop("Broken-v0")
    assert result.exit_code == 1
    assert re.fullmatch(
        r"error: environment \d .*'observation'.*nan.*\n.*/run was removed\. Its seed was \d+\.\n", result.stderr
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [
        (">&-", 0, ""),
        ("> /dev/full", 1, "error: the output, or a file, cannot be written: No space left on device\n"),
    ],
)
def test_an_output_that_takes_nothing(tmp_path, redirected, code, said):
    """Closed by the caller, or on a full disk."""
    command = ["sh", "-c", f'exec "$0" -m maze_core.cli.main plugins list --kind runner {redirected}', sys.executable]
    result = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (code, said)
