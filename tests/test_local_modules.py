"""The current folder: its modules are found behind all others, and nothing else in it is imported."""

import importlib
import os
import subprocess
import sys
from importlib.util import spec_from_file_location

import pytest

from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import allow_local_modules, is_current_folder, permit
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.imports import import_module
from maze_core.plugins.config.assembly import env_config
from tests.forked import Forked

WALK = """
import gymnasium
from maze_devkit.envs import SeededWalk
gymnasium.register("Walk-v0", SeededWalk)
"""
GROUPS = ["gymnasium.envs", "torch.backends", "tensorboard_plugins", "maze.hints"]
GROUPS += [f"maze.{kind}s" for kind in ("algorithm", "env", "wrapper", "model", "runner", "callback")]
TRAIN = ["train", "ppo", "--env", "mine:Walk-v0", "--run-dir", "run", "-q", "--preset", "none", "--epochs", "1"]
TRAIN += ["--num-envs", "2"]
for _value in ("epoch_length=1", "n_rollout_steps=4"):
    TRAIN += ["--set", f"algorithm.{_value}"]
TRAIN += ["--set", "evaluation.n_episodes=1", "--set", "callbacks.tensorboard=null"]

SHOUTED = ["--wrappers", "shout"]


def python(folder, *arguments, safe=True):
    """`safe`: without the current folder at the head of the path, as the command `maze` has it."""
    command = [sys.executable, *(["-P"] if safe else []), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


@pytest.fixture
def trap(tmp_path):
    """A folder with a module of one's own, and a distribution that was unpacked there."""
    (tmp_path / "mine.py").write_text(WALK)
    (tmp_path / "unpacked.py").write_text("open('executed', 'w')\nclass Wrap: pass\n")
    info = tmp_path / "unpacked-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unpacked\nVersion: 1.0\n")
    points = "".join(
        f"[{group}]\nshout = unpacked:Wrap\nppo = unpacked:Wrap\ndev = unpacked:Wrap\n" for group in GROUPS
    )
    (info / "entry_points.txt").write_text(points)
    return tmp_path


@pytest.mark.slow
def test_a_distribution_in_the_current_folder_is_not_imported(trap):
    """The trap would clash with `ppo` and `dev`, too; workers find the module and not the distribution."""
    command = [*TRAIN, "--runner", "local", "--set", "runner.workers=1"]
    result = python(trap, "-m", "maze_core.cli.main", *command, safe=False)
    assert result.returncode == 0, result.stderr
    for words, code in ((["eval", "run", "--runner", "dev"], 0), (["train", "ppo", "--env", "x", *SHOUTED], 2)):
        process = Forked(words, trap, os.environ)
        _, told = process.communicate(120)
        assert process.returncode == code, told
    assert "unknown wrapper 'shout'" in told
    assert not (trap / "executed").exists()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder whose modules the command line has named none of; what is imported is forgotten afterwards."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not is_current_folder(entry)])
    before = set(sys.modules)
    allow_local_modules()
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


def again():
    """As a later process in the same folder would begin."""
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != "maze_core.base.local_modules"]
    sys.path[:] = [entry for entry in sys.path if not is_current_folder(entry)]
    allow_local_modules()


@pytest.mark.parametrize("said", ["package.inner.deep:Env", {"env": {"id": "package:Walk-v0"}}, ["a:B,package:C"]])
def test_a_named_package_is_found(here, said):
    (here / "package" / "inner").mkdir(parents=True)
    (here / "package" / "__init__.py").touch()
    (here / "package" / "inner" / "deep.py").write_text("VALUE = 3\n")
    permit(said)
    assert import_module("package.inner.deep", "env.id").VALUE == 3


def test_a_named_folder_without_init_is_found(here):
    (here / "spread").mkdir()
    (here / "spread" / "part.py").write_text("VALUE = 4\n")
    permit("spread.part:Env")
    assert import_module("spread.part", "env.id").VALUE == 4


OPTIONAL = ["zstandard", "msvcrt", "maze_ppo_extra", "win32api", "tensorflow_io", "_winapi2", "colorama_x"]


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_module_that_nobody_named_is_not_found(here, name):
    (here / f"{name}.py").write_text("raise SystemExit('executed')\n")
    permit(["mine:Walk-v0", f"x={name}", f"{name}/Walk-v0", f"http://{name}:80", f"{name}:8265", name])
    with pytest.raises(ImportError):
        importlib.import_module(name)


IMPORTS = {
    "at its top": "import helper\nVALUE = helper.VALUE\n",
    "from another": "from helper import VALUE\n",
    "in a function": "def read():\n    import helper\n    return helper.VALUE\n",
    "by its name": "import importlib\ndef read():\n    return importlib.import_module('helper').VALUE\n",
}


@pytest.mark.parametrize("text", IMPORTS.values(), ids=IMPORTS)
def test_what_a_named_module_imports_is_found(here, text):
    (here / "mine.py").write_text(text)
    (here / "helper.py").write_text("import third\nVALUE = third.VALUE\n")
    (here / "third.py").write_text("VALUE = 5\n")
    permit("mine:Walk-v0")
    mine = import_module("mine", "env.id")
    assert (mine.read() if hasattr(mine, "read") else mine.VALUE) == 5


LIBRARY = """
def get():
    try:
        import fast
    except ImportError:
        return "none"
    return "taken"
"""


def test_what_a_library_does_without_is_not_taken_from_here_for_a_named_module(here, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    (site / "library_of_a_test.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(site)
    (here / "fast.py").touch()
    (here / "mine.py").write_text("from library_of_a_test import get\nVALUE = get()\n")
    permit("mine:Walk-v0")
    assert import_module("mine", "env.id").VALUE == "none"


def test_an_environment_in_a_module_beside_the_one_that_registers_it_is_built(here):
    (here / "mine.py").write_text("import gymnasium\ngymnasium.register('Beside-v0', 'beside:Walk')\n")
    (here / "beside.py").write_text("from maze_devkit.envs import SeededWalk as Walk\n")
    config, _ = env_config({"name": "gymnasium", "id": "mine:Beside-v0"})
    EnvBuilder(config, ())(0).close()


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_what_is_installed_is_not_replaced_by_a_named_module(here, tmp_path, monkeypatch, kind):
    site = tmp_path / "site"
    site.mkdir()
    (site / "both_places.py").write_text("VALUE = 'installed'\n")
    (here / "both_places.py").write_text("VALUE = 'here'\n")
    if kind == "installed":
        monkeypatch.syspath_prepend(site)
    else:
        sys.meta_path.append(Editable(site))
        again()
    permit("both_places:Walk-v0")
    assert import_module("both_places", "env.id").VALUE == "installed"


class Editable:
    """The finder of an editable installation: behind `sys.path`."""

    def __init__(self, folder):
        self._folder = folder

    def find_spec(self, name, path=None, target=None):
        file = self._folder / f"{name}.py"
        return spec_from_file_location(name, file) if file.exists() else None


def test_a_name_is_remembered_for_its_folder(here, tmp_path, monkeypatch):
    for folder in (here, tmp_path):
        (folder / "mine.py").touch()
    permit("mine:Walk-v0")
    again()
    import_module("mine", "env.id")
    del sys.modules["mine"]
    monkeypatch.chdir(tmp_path)
    again()
    with pytest.raises(ConfigError, match=r"needs your permission\nIf .*: maze envs list mine:"):
        import_module("mine", "env.id")
    permit("mine:Walk-v0")
    import_module("mine", "env.id")
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "state").rglob("*") if file.is_file())


@pytest.mark.parametrize("damage", ["a folder", "no home", "a file", "relative"])
def test_without_a_memory_the_user_is_asked_again(here, tmp_path, monkeypatch, damage):
    (here / "mine.py").touch()
    if damage == "a folder":
        permit("mine:Walk-v0")
        (record,) = [file for file in (tmp_path / "state").rglob("*") if file.is_file()]
        record.unlink()
        record.mkdir()
    elif damage == "a file":
        (tmp_path / "state").write_text("in the way")
    elif damage == "relative":  # a stranger's folder must not bring the memory along
        monkeypatch.setenv("XDG_STATE_HOME", "state")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        (here / "state").symlink_to(tmp_path / "state")
    else:
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/nothing")
    permit("mine:Walk-v0")
    assert import_module("mine", "env.id")
    del sys.modules["mine"]
    again()
    if damage == "relative":
        assert not (tmp_path / "state").exists()
        return
    with pytest.raises(ConfigError, match="needs your permission"):
        import_module("mine", "env.id")


def test_a_worker_finds_what_its_driver_allows_and_nothing_else(here):
    for name in ("mine", "helper", "theirs"):
        (here / f"{name}.py").touch()
    permit("mine:Walk-v0")
    code = "from maze_core.base.local_modules import understand_local_modules as u; import sys; u()\n"
    code += "import mine\ntry:\n    import theirs\nexcept ImportError:\n    print('right')"
    code = f"import sys; sys.path[:] = {sys.path!r}\n{code}"
    assert python(here, "-c", code).stdout == "right\n"


OF_PYTHON = [
    "os:system", "subprocess:getoutput", "builtins:exec", "shutil:rmtree", "pickle:loads", "runpy:run_path",
    "webbrowser:open", "antigravity:X", "idlelib.idle:X", "test.autotest:X", "_pickle:loads", "ctypes.util:X",
    "__main__:X", "pip.__main__:X", "gymnasium.__main__:X", "this:Zen",
]  # fmt: skip


@pytest.mark.parametrize("value", OF_PYTHON)
def test_modules_of_python_and_programs_are_not_imported_for_a_name(here, value):
    """Typed or not."""
    permit(value)
    name = value.partition(":")[0]
    known = name in sys.modules
    with pytest.raises(ConfigError, match="is a module of Python itself, or a program"):
        import_module(name, "env.id")
    assert (name in sys.modules) == known
