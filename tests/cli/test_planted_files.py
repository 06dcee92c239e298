"""Files in the current folder with the names of everything that Python, Maze or a library may import.

Each leaves a trace when it is imported. The commands run as users run them, in processes of their own.
"""

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

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
    "help": (["--help"], ["train", "ppo", "--help"]),
    "plugins": (["plugins", "list"], ["plugins", "check", "a2c"]),
    "envs": (["envs", "list", "CartPole"], ["envs", "check", "mine:Walk-v0"]),
    "runs": (["config", "show", "run"], ["runs", "list", "."]),
    "eval": (["eval", "run", "-n", "2", "--runner", "local"],),
    "rollout": (
        ["rollout", "run", "--episodes", "2", "--workers", "2", "--record", "demos"],
        ["trajectories", "info", "demos"],
    ),
    "resume": (["resume", "run", "--set", "algorithm.n_epochs=2"],),
    "view": (["view", "run", "--episodes", "1", "--no-open"],),
    "export": (["export", "run", "--out", "policy.onnx"],),
    "an exported policy": (["eval", "run", "-n", "1", "--policy", "policy.onnx"],),
    "export to torch": (["export", "run", "--out", "policy.pt2"],),
    "profile": (["profile", "run", "--seconds", "0.1"],),
    "sweep": ([*SWEEP, "--dir", "lr", "-j", "1", "-q", "--set", "evaluation.n_episodes=1"],),
    "init": (["init", "project"],),
    "ray": (["eval", "run", "-n", "1", "--runner", "ray"],),
}


def names():
    """What may be imported: Python's modules, every installed package, what libraries do without."""
    tops = set(sys.stdlib_module_names) | set(metadata.packages_distributions()) | set(OPTIONAL)
    tops |= {path.parent.name for path in ROOT.glob("plugins/*/maze_*/__init__.py")}
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
    elif scene == "an exported policy" and not (folder / "policy.onnx").exists():
        run(folder, *SCENES["export"])
    for command in SCENES[scene]:
        run(folder, command)


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    """An ordinary installation of the core and some plugins: not editable, in a folder of its own."""
    site, copies = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("copies")
    shutil.copytree(ROOT / "maze_core", copies / "core" / "maze_core")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copies / "core")
    for name in ("maze_ppo", "maze_view", "maze_compare"):
        ignored = shutil.ignore_patterns("build", "*.egg-info")
        shutil.copytree(ROOT / "plugins" / name, copies / name, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), *map(str, copies.iterdir())], check=True, timeout=250)
    return site


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_command_of_an_ordinary_installation_does_either(folder, ordinary):
    code = "from maze_core.cli import main; assert main.__file__.startswith(sys.argv.pop(1)); main.main()"
    start = [sys.executable, "-P", "-c", f"import sys; {code}", str(ordinary)]
    for command in (["eval", "run", "-n", "1"], ["view", "run", "--episodes", "1", "--no-open", "--out", "other.html"]):
        run(folder, command, start, PYTHONPATH=str(ordinary))
