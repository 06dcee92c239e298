"""Every command that may run for a while ends with 130 after Ctrl-C and with 143 after SIGTERM."""

import os
import shutil
import signal
import socket
import time

import pytest

from maze_core.run.context import RunContext
from tests.forked import WITH_WORKERS, Forked

ENV = """
import os
import time
from pathlib import Path

import gymnasium
from maze_devkit.envs import SeededWalk


class Slow(SeededWalk):
    def step(self, action):
        if "REACHED" in os.environ:
            Path(os.environ["REACHED"]).touch()
            time.sleep(0.01)
        return super().step(action)


gymnasium.register("Slow-v0", entry_point=Slow)
"""
SLOW_DISK = """
import os, time
from pathlib import Path
from maze_core.base import files
known = files.open_file
def open_file(path, mode, root=None):
    if mode == "rb" and {"run", "recorded"} & {*Path(path).parts}:
        Path(os.environ["REACHED"]).touch()
        time.sleep(60)
    return known(path, mode, root)
files.open_file = open_file
from maze_core.cli.main import main; main()
"""
"""The command line, where reading a file takes long."""
TRAINING = """
import os
from pathlib import Path
from maze_core.run import api
known = api.train_loop
def train_loop(run):
    Path(os.environ["REACHED"]).touch()
    return known(run)
api.train_loop = train_loop
from maze_core.cli.main import main; main()
"""
"""The command line, which says when it trains."""
SMALL = ["--set", "evaluation.n_episodes=1"]
PPO = ["ppo", "--env", "slow_ponds:Slow-v0", "--preset", "none", "--n-rollout-steps", "8", "--num-envs", "2", *SMALL]
PLAYING = {
    "train": ["train", *PPO, "--epochs", "100000", "--run-dir", "new"],
    "resume": ["resume", "run", "--set", "algorithm.n_epochs=100000"],
    "eval": ["eval", "run", "-n", "100000"],
    "rollout": ["rollout", "run", "-n", "100000"],
    "rollout that records": ["rollout", "run", "-n", "100000", "--record", "demos"],
    "rollout of a plugin": ["rollout", "--policy", "random", "--env", "slow_ponds:Slow-v0", "-n", "100000"],
    "export": ["export", "run", "--out", "policy.onnx"],
    "profile": ["profile", *PPO, "--seconds", "600"],
    "profile of a run": ["profile", "run", "--seconds", "600"],
    "view": ["view", "run", "--out", "view.html", "--no-open", "-n", "100000"],
    "envs check": ["envs", "check", "slow_ponds:Slow-v0"],
}
WORKING = {
    "sweep": ["sweep", *PPO, "--epochs", "100000", "--over", "algorithm.lr=0.1,0.2", "--jobs", "1", "--dir", "swept"],
    "rollout on workers": ["rollout", "run", "-n", "100000", "--workers", "2"],
    "train on workers": ["train", *PPO, "--runner", "local", "--epochs", "100000", "--run-dir", "new"],
}
READING = {
    "runs list": ["runs", "list", "run"],
    "runs compare": ["runs", "compare", "run", "run"],
    "runs plot": ["runs", "plot", "run", "--out", "curves.png"],
    "config show": ["config", "show", "run"],
    "trajectories info": ["trajectories", "info", "recorded"],
    "trajectories export": ["trajectories", "export", "recorded", "--id", "slow/ponds-v0"],
    "view of a recording": ["view", "recorded", "--out", "view.html", "--no-open"],
}
CHECKING = {
    "plugins check": ["plugins", "check", "ppo"],
    "plugins check of a callback": ["plugins", "check", "early_stopping"],
}
COMMANDS = {
    **{name: (words, {}) for name, words in PLAYING.items()},
    **{name: (words, {"program": WITH_WORKERS}) for name, words in WORKING.items()},
    **{name: (words, {"program": SLOW_DISK}) for name, words in READING.items()},
    **{name: (words, {"program": TRAINING}) for name, words in CHECKING.items()},
}
FAST = ("profile", "runs list", "plugins check of a callback")
BOTH = (*FAST, "train", "train on workers", "sweep", "rollout")
"""Commands that get both signals. The others get one, in turn: the two reach a command by the same handler."""
CASES = [
    pytest.param(name, number, marks=() if name in FAST else pytest.mark.slow, id=f"{name} {number.name}")
    for place, name in enumerate(COMMANDS)
    for number in ((signal.SIGINT, signal.SIGTERM) if name in BOTH else ((signal.SIGINT, signal.SIGTERM)[place % 2],))
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the environment's module, a run and a recording."""
    folder = tmp_path_factory.mktemp("signals")
    (folder / "modules").mkdir()
    (folder / "modules" / "slow_ponds.py").write_text(ENV)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "modules")
        small = {"algorithm.n_rollout_steps": 8, "algorithm.num_envs": 2, "evaluation.n_episodes": 2}
        parts = {"epochs": 1, "silent": True, "preset": "none", "run_dir": folder / "run"}
        with RunContext("slow_ponds:Slow-v0", "ppo", overrides=small, **parts) as context:
            context.train()
            context.rollout(2, record=folder / "recorded")
    return folder


def until(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def environment(place, folder):
    return {
        **os.environ,
        "PYTHONPATH": str(place / "modules"),
        "REACHED": str(folder / "reached"),
        "OMP_NUM_THREADS": "1",
    }


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_signal_ends_the_command_with_its_exit_code(place, tmp_path, name, number):
    words, options = COMMANDS[name]
    for each in ("run", "recorded"):
        (tmp_path / each).symlink_to(place / each)
    if name == "resume":
        (tmp_path / "run").unlink()
        shutil.copytree(place / "run", tmp_path / "run")
    process = Forked(words, tmp_path, environment(place, tmp_path), **options)
    try:
        until((tmp_path / "reached").exists, process)
        process.send_signal(number)
        out, err = process.communicate(60)
    finally:
        process.kill()
    assert process.returncode == 128 + number, (out, err)
    assert "Traceback" not in out + err
    assert "bug in" not in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_ends_with_its_exit_code(place, tmp_path, number):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = Forked(["serve", place / "run", "--port", port], tmp_path, environment(place, tmp_path))

    def answers():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(answers, process)
        with socket.create_connection(("127.0.0.1", port)):  # a client that stays changes nothing
            process.send_signal(number)
            assert process.wait(20) == 128 + number
    finally:
        process.kill()
