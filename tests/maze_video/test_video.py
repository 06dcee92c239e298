"""`--video` films with what is installed, and says what to install where nothing is."""

from itertools import pairwise

import numpy as np
import pytest
from maze_recordings.films import open_recorder
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install
from tests.agents import CrowdSource


def maze(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def no_studio(monkeypatch):
    without = tuple(each for each in discovery.declared() if each.distribution != "maze-video")
    monkeypatch.setattr(discovery, "declared", lambda: without)


def test_each_episode_is_a_film_and_no_error_of_the_display_is_printed(tmp_path, monkeypatch, capfd):
    pytest.importorskip("imageio")
    for name in ("XDG_RUNTIME_DIR", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    result = maze(
        "rollout", "--policy", "random", "--env", "CartPole-v1", "-n", 2, "--seed", 1, "--video", tmp_path / "films"
    )
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "films").iterdir()) == ["episode-0.mp4", "episode-1.mp4"]
    assert all(path.stat().st_size > 1000 for path in (tmp_path / "films").iterdir())
    assert "error" not in capfd.readouterr().err  # the libraries print there themselves


def test_without_the_distribution_it_says_what_to_install(no_studio, tmp_path, quick):
    with pytest.raises(ConfigError, match=r"Next: pip install .*maze.video"):
        open_recorder(None, tmp_path / "films")
    result = maze("rollout", "--policy", "random", "--env", "CartPole-v1", "-n", 1, "--video", tmp_path / "films")
    assert result.exit_code == 2
    said = result.stderr.splitlines()
    assert said == [
        "error: --video: filming needs maze-video, which is not installed",
        f"Next: {how_to_install('maze-video')}",
    ]
    assert not (tmp_path / "films").exists()
    assert maze("rollout", "--policy", "random", "--env", "CartPole-v1", "-n", 1).exit_code == 0


def test_an_evaluation_says_so_too(no_studio, tmp_path, quick):
    context = quick("CartPole-v1")
    context.train()
    result = maze("eval", context.run_dir, "--video", tmp_path / "films")
    assert result.exit_code == 2
    assert how_to_install("maze-video") in result.stderr


def test_an_episode_of_several_agents_is_a_film(tmp_path, quick):
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("pygame")
    pettingzoo = {"env.name": "pettingzoo", "env.id": "pettingzoo.classic:tictactoe_v3"}
    context = quick(None, overrides=pettingzoo)
    context.train()
    result = maze("eval", context.run_dir, "--episodes", 2, "--video", tmp_path / "films")
    assert result.exit_code == 0, result.output
    (film,) = (tmp_path / "films").iterdir()
    with imageio.get_reader(film) as reader:
        pictures = [np.asarray(picture) for picture in reader]
    assert 6 <= len(pictures) <= 10  # the empty board, and one for each move
    assert all((one != two).any() for one, two in pairwise(pictures))


def test_agents_that_cannot_render_are_refused(tmp_path, quick):
    pytest.importorskip("imageio")
    builder = quick(CrowdSource).run.env_builder("evaluation")
    with pytest.raises(ConfigError, match=r"--video: the environment cannot render images: render\(\) returned None"):
        open_recorder(builder, tmp_path / "films").vector_env(1)
    assert not (tmp_path / "films").exists()
