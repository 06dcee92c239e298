"""Files in the current folder with the names of everything that Python, Maze or a library may import.

Each leaves a trace when it is imported. The commands run as users run them, several in a process. Those of an ordinary
installation, which is not editable: `tests/maze_devkit/scaffold/test_wheels.py`.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.interpreted import losses
from tests.repository import files

OPTIONAL = (
    "zstandard", "msvcrt", "tensorflow", "imageio", "pygame", "cloudpickle", "matplotlib", "ray", "jax", "boto3",
    "notf", "moviepy", "sitecustomize", "usercustomize", "tensorboard_plugin_x", "backports", "brotli", "orjson",
    "ujson", "simplejson", "ipdb", "IPython", "colorama", "pandas", "scipy", "numba", "cupy", "onnx", "triton",
    "_winreg", "win32api", "readline", "gym", "shimmy", "ale_py", "minigrid", "mujoco", "wandb", "mlflow", "psutil",
    "pynvml", "google", "tensorboard", "PIL", "setuptools", "pkg_resources", "distutils",
    "__main__", "__init__", "conftest",
)  # fmt: skip
TRACE = "import os\nopen(os.environ['TRACE'], 'a').write(__name__ + ' ' + __file__ + chr(10))\n"
MINE = """
import gymnasium
from maze_devkit.envs import SeededWalk
gymnasium.register("Walk-v0", SeededWalk)
"""
TRAIN = ["train", "ppo", "--env", "mine:Walk-v0", "--run-dir", "run", "-q", "--preset", "none", "--epochs", "1"]
TRAIN += ["--num-envs", "2", "--epoch-length", "1", "--n-rollout-steps", "4", "--set", "evaluation.n_episodes=1"]
SWEEP = ["sweep", "ppo", "--env", "mine:Walk-v0", "--preset", "none", "--epochs", "1", "--over", "algorithm.lr=1e-3"]
COMMANDS = (
    ["--help"],
    ["train", "ppo", "--help"],
    ["plugins", "list"],
    ["envs", "list", "CartPole"],
    ["config", "show", "run"],
    ["runs", "list", "."],
    ["plugins", "check", "random", "--kind", "policy"],
    ["envs", "check", "mine:Walk-v0"],
    ["init", "project"],
    ["eval", "run", "-n", "2"],
    ["rollout", "run", "--episodes", "2", "--workers", "1", "--record", "demos"],
    ["trajectories", "info", "demos"],
    ["view", "run", "--episodes", "1", "--no-open"],
    ["export", "run", "--out", "policy.onnx"],
    ["eval", "run", "-n", "1", "--policy", "policy.onnx"],
    ["resume", "run", "--set", "algorithm.n_epochs=2"],
    ["profile", "run", "--seconds", "0.1"],
    [*SWEEP, "--dir", "lr", "-j", "1", "-q", "--set", "evaluation.n_episodes=1"],
)
"""Commands that follow each other in one process: a module is imported once, whichever of them asks for it first."""
ON_RAY = ["eval", "run", "-n", "1", "--runner", "ray"]
DQN = ["train", "dqn", "--env", "CartPole-v1", "--preset", "none", "--seed", "1", "--epochs", "2"]
DQN += ["--epoch-length", "4", "--num-envs", "3", "--n-rollout-steps", "8", "--batch-size", "16"]
DQN += ["--initial-buffer-size", "40", "--set", "model.hidden=[16,16]", "--set", "evaluation.n_episodes=0"]
DQN += ["--set", "closed_form=false"]
"""A small step: it is compiled in a fifth of the time of one of an actor and critics."""
IN_A_ROW = """
import json, sys
from maze_core.cli.main import main

for command in json.loads(sys.argv.pop()) if __name__ == "__main__" else ():
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{command} ended with {end.code}")
"""
"""What the script `maze` does, for each of several commands."""


def names():
    """What may be imported: Python's modules, every installed package, what libraries do without."""
    tops = set(sys.stdlib_module_names) | set(metadata.packages_distributions()) | set(OPTIONAL)
    tops |= {path.parent.name for path in files("maze_*/__init__.py")}
    return sorted(name for name in tops if name.isidentifier())


def plant(folder):
    for name in names():
        (folder / f"{name}.py").write_text(TRACE)
    (folder / "mine.py").write_text(MINE)


def run(folder, command, start=(str(Path(sys.executable).parent / "maze"),), **variables):
    """What a command in the folder says; no planted file may have left its trace."""
    trace = folder.parent / "trace"
    given = {"OMP_NUM_THREADS": "1", "TRACE": str(trace), "XDG_CACHE_HOME": str(folder.parent / "cache"), **variables}
    environment = {**os.environ, **given}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [*start, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert not trace.exists(), f"{command} imported:\n{trace.read_text()}"
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with everything planted, and a run that was trained there with a worker process."""
    folder = tmp_path_factory.mktemp("planted") / "here"
    folder.mkdir()
    plant(folder)
    run(folder, [*TRAIN, "--runner", "local", "--set", "runner.workers=1"])
    return folder


@pytest.fixture(scope="module")
def script(folder):
    """Runs commands in a row."""
    script = folder.parent / "in_a_row.py"
    script.write_text(IN_A_ROW)
    return [sys.executable, str(script)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_command_imports_a_file_of_the_current_folder(folder, script):
    ray = [ON_RAY] if importlib.util.find_spec("ray") else []
    run(folder, [json.dumps([*COMMANDS, *ray])], script)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="needs a C++ compiler")
def test_what_a_compiler_makes_is_that_of_the_code_and_of_no_file_here(folder, script):
    """The compiler and what it starts are processes of their own."""
    both = [[*DQN, "--run-dir", f"compile_{setting}", "--set", f"compile={setting}"] for setting in ("off", "on")]
    said = run(folder, [json.dumps(both)], script)
    assert "note: the updates of dqn are compiled from step 1 on" in said
    assert "; the run goes on" not in said
    plain, ours = (losses(lines_of(folder / f"compile_{setting}")) for setting in ("off", "on"))
    assert len(plain) == 2
    for wanted, found in zip(plain, ours, strict=True):
        assert len(wanted) > 1
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def lines_of(run_dir):
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
