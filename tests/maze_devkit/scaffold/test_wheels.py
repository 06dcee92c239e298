"""The wheel of the core and that of one bundled plugin, alone in an environment: nothing depends on the repository."""

import json
import tomllib
import zipfile

import pytest

from tests.cli.test_planted_files import plant
from tests.maze_devkit.scaffold.clean import ROOT
from tests.repository import folder_of, folders

OLD = """
import gymnasium


class Old(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self):
        return self.observation_space.sample()

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, {}
"""


@pytest.fixture(scope="module")
def maze(clean):
    """The command."""
    with clean.typing("maze_core.run.context") as maze:
        yield maze


@pytest.mark.slow
def test_the_core_and_one_plugin_are_all_there_is(clean):
    listed = json.loads(clean.maze("plugins", "list", "--json", folder=clean.home))
    assert {each["distribution"] for each in listed} == {"maze-core", "maze-ppo"}  # a library has no plugins
    assert {each["state"] for each in listed} == {"ok"}
    assert all(str(clean.folder) in each["file"] for each in listed)


@pytest.mark.slow
def test_commands_of_other_distributions_say_what_to_install(maze, clean):
    for command, distribution in (
        (["sweep", "ppo"], "sweep"),
        (["rollout", "run"], "recordings"),
        (["trajectories", "info", "demos"], "recordings"),
        (["runs", "list"], "compare"),
        (["plugins", "new"], "devkit"),
        (["envs", "list"], "devkit"),
        (["config", "schema"], "devkit"),
    ):
        assert f"Next: pip install maze-{distribution}" in maze(*command, folder=clean.home, code=2)
    assert "new" not in maze("plugins", "--help", folder=clean.home)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "distribution"),
    [
        ("--set compile=on", "maze-compile"),
        ("--set model.memory=gru", "maze-memories"),
        ("--model cnn", "maze-models"),
        ("--env levels:Old", "maze-foreign-envs"),
        ("--env bsuite:catch/0", "maze-foreign-envs"),
        ("--env CartPole-v1 --set env.vectorization=native", "maze-foreign-envs"),
        ("--env CartPole-v1 --wrappers gymnasium.wrappers:FlattenObservation", "maze-wrappers"),
    ],
)
def test_what_other_distributions_have_is_asked_for_by_name(maze, tmp_path, asked, distribution):
    (tmp_path / "levels.py").write_text(OLD)
    (tmp_path / "bsuite.py").write_text("")
    words = ["train", "ppo", *([] if "--env" in asked else ["--env", "CartPole-v1"]), *asked.split()]
    printed = maze(*words, "--steps", "256", folder=tmp_path, code=2)
    assert f"pip install {distribution}" in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_they_train_with_the_preset_of_the_wheel(maze, clean, tmp_path):
    printed = maze("train", "ppo", "--env", "CartPole-v1", "--steps", "512", "--run-dir", "run", folder=tmp_path)
    assert "preset  CartPole-v1" in printed
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])["env_steps"] >= 512
    plant(tmp_path)  # files that raise an error when they are imported, which this environment has no `TRACE` for
    assert "episodes" in clean.maze("eval", "run", "-n", "1", folder=tmp_path)


@pytest.mark.slow
def test_no_module_comes_from_the_repository(clean):
    loaded = "[getattr(module, '__file__', '') for module in sys.modules.values()]"
    printed = clean.run(clean.python, "-c", f"import sys, maze_core.run.context, maze_ppo.ppo; print({loaded})")
    assert "maze_ppo" in printed
    assert not [file for file in printed.split(",") if str(ROOT) in file and "/site-packages/" not in file]


@pytest.mark.slow
def test_every_file_of_the_packages_is_in_the_wheels(wheels, kit_wheels):
    for wheel in (*wheels, *kit_wheels):
        name = wheel.name.partition("-")[0]
        source = folder_of(name) / name
        packed = set(zipfile.ZipFile(wheel).namelist())
        files = [file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
        missing = {f"{source.name}/{file.relative_to(source).as_posix()}" for file in files} - packed
        assert not missing


@pytest.mark.parametrize("folder", [ROOT, *folders()])
def test_every_distribution_says_what_an_index_shows(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE"]
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert project["authors"]
    assert project["keywords"]
    assert "Typing :: Typed" in project["classifiers"]
    assert all("<" in line for line in project["dependencies"] if line.startswith("maze-"))
