"""The connection to Ray: who ends it, what listens where, and what is left after every ending."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from maze_core.base.errors import ConfigError, PluginError, RunError
from tests.maze_ray.conftest import descendants

ray = pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from maze_core.run.context import RunContext
from maze_devkit.envs import SeededWalk

if __name__ == "__main__":
    small = {
        "algorithm.num_actors": 1, "algorithm.n_rollout_steps": 20, "algorithm.epoch_length": 3,
        "algorithm.n_epochs": 100_000, "callbacks.early_stopping.patience": 0,
        "evaluation.n_episodes": 0, "callbacks.tensorboard": None,
    }
    parts = {"overrides": small, "run_dir": sys.argv[1], "seed": 1, "silent": True}
    with RunContext(SeededWalk, "impala", runner="ray", **parts) as context:
        assert context.run
        print("ready", flush=True)
        print(context.train().outcome, flush=True)
"""


def survivors(marker):
    """Command lines of the living processes whose environment holds a marker."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            ours = marker.encode() in (folder / "environ").read_bytes()
            if ours and (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " ")[:100])
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_no_process_is_left(tmp_path):
    """After Ctrl-C, which reaches the whole group. Runs that end by an error are in `test_losses.py`."""
    script, marker = tmp_path / "driver.py", f"MAZE_TEST={tmp_path.name}-{os.getpid()}"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.update([marker.split("=")])
    environment.pop("RAY_ADDRESS", None)
    driver = subprocess.Popen(
        [sys.executable, script, tmp_path / "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert driver.stdout.readline() == "ready\n"
    assert len(survivors(marker)) > 3  # it does see them
    time.sleep(1.0)
    os.killpg(driver.pid, signal.SIGINT)
    began = time.monotonic()
    out, errors = driver.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert driver.returncode == -signal.SIGINT, errors
    deadline = time.monotonic() + 10.0
    while (left := survivors(marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert (out, errors.splitlines()[-1]) == ("", "KeyboardInterrupt")
    assert (tmp_path / "run" / "checkpoints" / "last").is_dir()


@pytest.mark.slow
def test_handlers_environment_and_files_are_given_back(capsys):
    from maze_ray.config import RayConfig
    from maze_ray.session import Session

    def handler(number, frame):
        pass

    before, printing = (
        (signal.signal(signal.SIGTERM, handler), dict(os.environ)),
        ray._private.worker.print_to_stdstream,
    )
    try:
        first, second = (Session(RayConfig(name="ray", address="local")) for _ in range(2))
        folder = first.connection.folder.path
        ray._private.worker.print_to_stdstream({"lines": ["a node's log"], "pid": "raylet", "is_err": False}, False)
        assert not capsys.readouterr().out
        assert signal.getsignal(signal.SIGTERM) is handler
        assert first.is_local
        first.check()
        first.close()
        first.close()
        assert ray.is_initialized()  # the second one uses it
        with pytest.raises(ConfigError, match=r"runner.address: this process is connected to another Ray"):
            Session(RayConfig(name="ray", address="127.0.0.1:1"))
        second.close()
        assert not ray.is_initialized()
        assert signal.getsignal(signal.SIGTERM) is handler
        assert not folder.exists()
    finally:
        signal.signal(signal.SIGTERM, before[0])
    assert dict(os.environ) == before[1]
    assert ray._private.worker.print_to_stdstream is printing
    assert not descendants("raylet")


def refused(address, match):
    from maze_ray.config import RayConfig
    from maze_ray.runner import RayRunner

    began = time.monotonic()
    with pytest.raises(ConfigError, match=match):
        RayRunner(RayConfig(name="ray", address=address)).workers(None, 1)
    assert time.monotonic() - began < 8
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    "error", [Exception("The current node timed out\nduring startup."), TimeoutError(), OSError("x")]
)
def test_a_ray_that_does_not_start_says_what_to_do(monkeypatch, error):
    from maze_ray.config import RayConfig
    from maze_ray.session import Session

    def init(**_):
        raise error

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = dict(os.environ)
    with pytest.raises(
        RunError, match=r"(?s)^Ray does not start: (The current .*|TimeoutError|x)\nNext: .*--runner local"
    ):
        Session(RayConfig(name="ray"))
    assert dict(os.environ) == before


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://head:10001", "head"])
def test_a_dead_ray_address_of_the_shell_is_named(monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    refused(None, r"^the environment variable RAY_ADDRESS: .*")


def test_wrong_addresses_are_one_clear_error_within_seconds(monkeypatch):
    refused("127.0.0.1:1", r"runner.address: no Ray cluster answers at \S+:1\nNext: start one there")
    refused("ray://head:10001", "the Ray client")
    refused("head", r"must be host:port, auto or local, got 'head'")
    monkeypatch.setattr("maze_ray.connection._found", lambda: "127.0.0.1:1")  # of a cluster that is gone
    refused("auto", r"this machine is not part of a running Ray cluster")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:2")
    refused(None, r"no Ray cluster answers at \S+:2")


def test_something_else_at_the_address_is_no_cluster():
    from maze_ray.probe import answers

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        assert not answers(f"127.0.0.1:{port}")
        thread.join()
        began = time.monotonic()
        assert not answers(f"127.0.0.1:{port}", timeout=0.5)  # it accepts, and says nothing
        assert time.monotonic() - began < 2


def test_without_ray_the_runner_says_how_to_install_it(monkeypatch):
    from maze_ray.config import RayConfig
    from maze_ray.runner import RayRunner

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PluginError, match=r"needs Ray, which is not installed here\nNext: make setup-ray"):
        RayRunner(RayConfig(name="ray")).workers(None, 1)


def test_listing_plugins_imports_no_ray():
    program = "import sys, maze_ray.runner, maze_ray.config; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
