"""New plugins as their authors meet them: written, installed, used, and checked by their own tests, without an edit."""

import json

import pytest
from maze_devkit.scaffold.kinds import STARTERS

from tests.maze_devkit.scaffold.clean import CleanEnvironment, build_wheel

SHORT = (
    "--preset", "none", "--epochs", "1", "--set", "algorithm.epoch_length=1", "--set", "evaluation.n_episodes=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def author(wheels, kit_wheels, tmp_path_factory):
    """The environment of a plugin's author."""
    environment = CleanEnvironment(tmp_path_factory.mktemp("author"))
    environment.install(*wheels, *kit_wheels)
    return environment


@pytest.fixture(scope="module")
def workshop(author):
    """A folder with a new package `maze-first-KIND` of each kind, installed as `pip install -e` does."""
    folder = author.folder / "workshop"
    folder.mkdir()
    for kind in STARTERS:
        printed = author.maze("plugins", "new", kind, f"first_{kind}", folder=folder)
        assert f"cd maze-first-{kind}" in printed
    author.install(*(part for path in sorted(folder.iterdir()) for part in ("-e", path)))
    return folder


def test_all_are_listed_and_well(author, workshop):
    listed = json.loads(author.maze("plugins", "list", "--json", folder=workshop))
    found = {each["kind"]: each for each in listed if each["distribution"].startswith("maze-first-")}
    assert list(found) == list(STARTERS)
    for kind, each in found.items():
        assert (each["name"], each["state"], each["summary"]) == (f"first_{kind}", "ok", STARTERS[kind].summary + ".")
        assert str(workshop) in each["file"]


@pytest.mark.parametrize("kind", STARTERS)
def test_what_the_command_says_to_type_next_works(kind, author, workshop, tmp_path):
    command = STARTERS[kind].command.replace("$name", f"first_{kind}").split()
    assert command[0] == "maze"
    if command[1] == "rollout":
        statistics = json.loads(author.maze(*command[1:], "--json", folder=tmp_path))
        assert statistics["return_mean"] > 200
        return
    if kind == "command":
        assert STARTERS[kind].summary in author.maze(*command[1:], folder=tmp_path)
        return
    if command[1] == "sweep":
        found = author.maze(*command[1:], *SHORT, "--trials", "2", "--dir", "sweep", "--json", folder=tmp_path)
        assert json.loads(found[found.index("{") :])["runs"] == {"total": 2, "finished": 2, "failed": 0}
        assert f"name: first_{kind}" in (tmp_path / "sweep" / "sweep.yaml").read_text()
        return
    author.maze(*command[1:], *SHORT, "--run-dir", "run", folder=tmp_path)
    assert f"first_{kind}" in (tmp_path / "run" / "config.yaml").read_text()
    if kind == "callback":
        assert len((tmp_path / "run" / "epochs.csv").read_text().splitlines()) == 2


def test_the_tests_of_a_new_algorithm_pass(author, workshop):
    printed = author.run(
        author.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=workshop / "maze-first-algorithm"
    )
    assert "failed" not in printed
    assert int(printed.rpartition(" passed")[0].split()[-1]) > 15


def test_the_tests_of_the_others_pass(author, workshop):
    """All in one process: what takes the time is importing torch."""
    others = [f"maze-first-{kind}" for kind in STARTERS if kind != "algorithm"]
    options = ("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    printed = author.run(author.python, "-m", "pytest", *options, *others, folder=workshop)
    assert "failed" not in printed
    assert int(printed.rpartition(" passed")[0].split()[-1]) > 7 * 10


def test_their_types_are_right(author, workshop):
    folders = sorted(path for name in ("maze-*/maze_first_*", "maze-*/tests") for path in workshop.glob(name))
    assert len(folders) == 2 * len(STARTERS)
    command = (author.python, "-m", "mypy", "--strict", "--cache-dir", author.folder / "mypy", *folders)
    assert "Success" in author.run(*command, folder=workshop)


def test_the_wheel_of_one_works_in_another_environment(author, workshop, wheels, tmp_path):
    other = CleanEnvironment(tmp_path / "other")
    other.install(wheels[0], build_wheel(workshop / "maze-first-algorithm", tmp_path))
    listed = json.loads(other.maze("plugins", "list", "--kind", "algorithm", "--json", folder=tmp_path))
    assert [each["name"] for each in listed] == ["first_algorithm"]
    assert str(other.folder) in listed[0]["file"]
    other.maze("train", "first_algorithm", "--env", "CartPole-v1", *SHORT, "--run-dir", "run", folder=tmp_path)
    assert "episodes" in other.maze("eval", "run", "--episodes", "1", folder=tmp_path)
