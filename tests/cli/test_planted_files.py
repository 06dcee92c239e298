"""Files in the current folder with the names of everything that Python, Maze or a library may import.

Each leaves a trace when it is imported. The commands run as users run them, several in a process.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.maze_devkit.scaffold.clean import OFFLINE, build_wheels
from tests.repository import files

ROOT = Path(__file__).resolve().parents[2]
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
SCENES = {
    "looking up and checking": (
        ["--help"],
        ["train", "ppo", "--help"],
        ["plugins", "list"],
        ["envs", "list", "CartPole"],
        ["config", "show", "run"],
        ["runs", "list", "."],
        ["plugins", "check", "random", "--kind", "policy"],
        ["envs", "check", "mine:Walk-v0"],
        ["init", "project"],
    ),
    "playing, exporting and training": (
        ["eval", "run", "-n", "2", "--runner", "local"],
        ["rollout", "run", "--episodes", "2", "--workers", "2", "--record", "demos"],
        ["trajectories", "info", "demos"],
        ["view", "run", "--episodes", "1", "--no-open"],
        ["export", "run", "--out", "policy.onnx"],
        ["eval", "run", "-n", "1", "--policy", "policy.onnx"],
        ["export", "run", "--out", "policy.pt2"],
        ["resume", "run", "--set", "algorithm.n_epochs=2"],
        ["profile", "run", "--seconds", "0.1"],
        [*SWEEP, "--dir", "lr", "-j", "1", "-q", "--set", "evaluation.n_episodes=1"],
    ),
    "ray": (["eval", "run", "-n", "1", "--runner", "ray"],),
}
"""Commands that follow each other in one process: a module is imported once, whichever of them asks for it first."""
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
    """The output of a command in the folder; no planted file may have left its trace."""
    trace = folder.parent / "trace"
    given = {"OMP_NUM_THREADS": "1", "TRACE": str(trace), "XDG_CACHE_HOME": str(folder.parent / "cache"), **variables}
    environment = {**os.environ, **given}
    environment.pop("PYTHONSAFEPATH", None)
    done = subprocess.run(
        [*start, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert not trace.exists(), f"{command} imported:\n{trace.read_text()}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with everything planted, and a run that was trained there with a worker process."""
    folder = tmp_path_factory.mktemp("planted") / "here"
    folder.mkdir()
    plant(folder)
    run(folder, [*TRAIN, "--runner", "local", "--set", "runner.workers=1"])
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", SCENES)
def test_no_command_imports_a_file_of_the_current_folder(folder, scene):
    if scene == "ray":
        pytest.importorskip("ray")
    script = folder.parent / "in_a_row.py"
    script.write_text(IN_A_ROW)
    run(folder, [json.dumps(SCENES[scene])], [sys.executable, str(script)])


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    """An ordinary installation of the core and some plugins: not editable, in a folder of its own."""
    site = tmp_path_factory.mktemp("site")
    plugins = [ROOT / "plugins" / name for name in ("maze_ppo", "maze_view", "maze_compare")]
    wheels = build_wheels(tmp_path_factory.mktemp("built"), ROOT, *plugins)
    pip = [sys.executable, "-m", "pip", "install", *OFFLINE, "--target", str(site)]
    subprocess.run([*pip, *map(str, wheels)], check=True, timeout=250)
    return site


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_command_of_an_ordinary_installation_does_either(folder, ordinary):
    code = f"import sys; from maze_core.cli import main; assert main.__file__.startswith(sys.argv.pop(1))\n{IN_A_ROW}"
    commands = (["eval", "run", "-n", "1"], ["view", "run", "--episodes", "1", "--no-open", "--out", "other.html"])
    start = [sys.executable, "-P", "-c", code, str(ordinary)]
    run(folder, [json.dumps(commands)], start, PYTHONPATH=str(ordinary))
