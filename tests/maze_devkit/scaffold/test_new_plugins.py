"""New plugins as their authors meet them: written, installed, used, and checked by their own tests, without an edit.

The page on conformance installs the wheel of one in another environment (`tests/docs/test_snippets.py`).
"""

import json

import pytest
from maze_devkit.scaffold.kinds import STARTERS

from tests.maze_devkit.scaffold.clean import ROOT

pytestmark = pytest.mark.slow
OWN_TYPES = ROOT / "tests" / "maze_devkit" / "scaffold" / "own_types.py"
SHORT = (
    "--preset", "none", "--epochs", "1", "--set", "algorithm.epoch_length=1", "--set", "evaluation.n_episodes=1",
    "--set", "algorithm.n_rollout_steps=16",
)  # fmt: skip


@pytest.fixture(scope="module")
def workshop(author):
    """A folder with a new package `maze-first-KIND` of each kind, installed as `pip install -e` does."""
    folder = author.folder / "workshop"
    folder.mkdir()
    with author.typing() as maze:
        for kind in STARTERS:
            assert f"cd maze-first-{kind}" in maze("plugins", "new", kind, f"first_{kind}", folder=folder)
    author.install_editable(sorted(folder.iterdir()))
    return folder


@pytest.fixture(scope="module")
def maze(author, workshop):
    """The command, where all are installed."""
    with author.typing("maze_core.run.api") as maze:
        yield maze


def test_all_are_listed_and_well(maze, workshop):
    listed = json.loads(maze("plugins", "list", "--json", folder=workshop))
    found = {each["kind"]: each for each in listed if each["distribution"].startswith("maze-first-")}
    assert list(found) == list(STARTERS)
    for kind, each in found.items():
        assert (each["name"], each["state"], each["summary"]) == (f"first_{kind}", "ok", STARTERS[kind].summary + ".")
        assert str(workshop) in each["file"]


@pytest.mark.parametrize("kind", STARTERS)
def test_what_the_command_says_to_type_next_works(kind, maze, tmp_path):
    command = STARTERS[kind].command.replace("$name", f"first_{kind}").split()
    assert command[0] == "maze"
    if command[1] == "rollout":
        statistics = json.loads(maze(*command[1:], "--json", folder=tmp_path))
        assert statistics["return_mean"] > 200
        return
    if kind == "command":
        assert STARTERS[kind].summary in maze(*command[1:], folder=tmp_path)
        return
    if command[1] == "sweep":
        found = maze(*command[1:], *SHORT, "--trials", "2", "--dir", "sweep", "--json", folder=tmp_path)
        assert json.loads(found[found.index("{") :])["runs"] == {"total": 2, "finished": 2, "failed": 0}
        assert f"name: first_{kind}" in (tmp_path / "sweep" / "sweep.yaml").read_text()
        return
    maze(*command[1:], *SHORT, "--run-dir", "run", folder=tmp_path)
    assert f"first_{kind}" in (tmp_path / "run" / "config.yaml").read_text()
    if kind == "callback":
        assert len((tmp_path / "run" / "epochs.csv").read_text().splitlines()) == 2


def test_their_own_tests_pass(author, workshop):
    """All in one process: what takes the time is importing torch."""
    folders = [f"maze-first-{kind}" for kind in STARTERS]
    options = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    printed = author.run(author.python, "-m", "pytest", *options, *folders, folder=workshop)
    assert "failed" not in printed
    assert int(printed.rpartition(" passed")[0].split()[-1]) > 22 + 7 * 10


def test_the_own_tests_of_a_new_project_pass(author, maze):
    """In an environment with the core, PPO and the kit."""
    maze("init", "my_cart", folder=author.home)
    printed = author.run("make", "test", folder=author.home / "my_cart")
    assert "5 passed" in printed


TORCH = ("_decomp", "_dynamo", "_export", "_functorch", "_higher_order_ops", "_inductor", "_library", "_prims", "_refs",
         "_subclasses", "ao", "compiler", "distributed", "export", "fx", "jit", "library", "masked", "nested", "onnx",
         "package", "profiler", "quantization", "sparse", "testing", "utils")  # fmt: skip
"""Parts of torch that no plugin of these names, and that take mypy half of its time."""


def test_their_types_are_right_and_those_of_ones_own_need_no_casts(author, workshop):
    """With the plugins, algorithms whose policies and distributions are types of their own; in one process."""
    folders = sorted(path for name in ("maze-*/maze_first_*", "maze-*/tests") for path in workshop.glob(name))
    assert len(folders) == 2 * len(STARTERS)
    settings, wrong = author.folder / "mypy.ini", author.folder / "wrong.py"
    passed_over = ",".join(f"torch.{name}.*" for name in TORCH)
    settings.write_text(f"[mypy]\n[mypy-{passed_over},sympy.*]\nfollow_imports = skip\n")
    wrong.write_text("import torch\n\nwrong: int = torch.zeros(1)\n")
    command = (author.python, "-m", "mypy", "--strict", "--config-file", settings, "--cache-dir", "/dev/null")
    printed = author.run(*command, *folders, OWN_TYPES, wrong, folder=workshop, code=1)
    assert "wrong.py:3: error: Incompatible types in assignment" in printed
    assert "Found 1 error in 1 file" in printed
