"""What is in the page: episodes as `maze rollout` plays them, and nothing that the files of a run only claim."""

import base64
import json

import numpy as np
import pytest
from gymnasium import Env, spaces
from maze_fork.branching import fork
from maze_recordings.loader import load_trajectories
from maze_recordings.rollouts import task_of_run
from maze_view.episodes import episode_data
from maze_view.insight import insight
from maze_view.pictures import Film, as_picture
from maze_view.plain import rounded
from maze_view.play import played
from typer.testing import CliRunner

from maze_core.cli.main import app


class Masked(Env):
    """Two choices of several, of which some are masked; five steps."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-1, 9, (2,), np.float32), "action_mask": spaces.MultiBinary(5)}
    )
    action_space = spaces.MultiDiscrete([2, 3])
    mask = np.array([1, 0, 1, 1, 0], np.int8)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._seen(), {}

    def step(self, action):
        self.steps += 1
        return self._seen(), float(action[1]), self.steps == 5, False, {}

    def _seen(self):
        return {"place": np.full(2, self.steps, np.float32), "action_mask": self.mask}


def test_the_episodes_are_those_that_a_rollout_records(view, cart, tmp_path):
    command = ["rollout", str(cart), "-n", "2", "--seed", "5", "--record", str(tmp_path / "demos")]
    assert CliRunner().invoke(app, command).exit_code == 0
    recorded = load_trajectories(tmp_path / "demos")
    _, played = view(cart, "--seed", 5, "--frames", 9)
    _, read = view(tmp_path / "demos")
    for number, episode in enumerate(recorded):
        for source in (played["sources"][0], read["sources"][0]):
            shown = source["episodes"][number]
            assert shown["length"] == len(episode)
            assert shown["seed"] == str(episode.seed)
            np.testing.assert_array_equal(np.ravel(shown["actions"][0]["taken"]), episode.actions["action"])
            expected = episode.obs["observation"]
            np.testing.assert_allclose(shown["observations"][0]["values"], expected, rtol=1e-4, atol=1e-5)
    frames = played["sources"][0]["episodes"][0]["frames"]
    assert 2 <= len(frames) <= 4
    assert frames[-1][0] == len(recorded[0])
    assert "series" in read["sources"][0]["episodes"][0]
    assert read["sources"][0]["episodes"][0]["series"] == {}


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_probabilities_values_and_masks_are_those_of_the_policy(memory, quick, view):
    overrides = {} if memory == "none" else {"model.memory": "gru"}
    context = quick(Masked, overrides={"evaluation.n_episodes": 1, "model.name": "mlp", **overrides})
    context.train()
    task = task_of_run(context.run, 3)
    (episode,) = played(task, 1, 4)
    trajectory = episode.trajectory
    assert "rgb_array" in episode.problem
    thoughts = insight(context.run.policy, trajectory)
    bars = thoughts.bars["action"]
    assert bars.shape == (5, 5)
    np.testing.assert_allclose(bars[:, :2].sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(bars[:, 2:].sum(1), 1, rtol=1e-5)
    assert (bars[:, Masked.mask == 0] == 0).all()
    assert (bars[np.arange(5), 2 + trajectory.actions["action"][:, 1]] == bars[:, 2:].max(1)).all()
    assert thoughts.value.shape == thoughts.entropy.shape == (5,)


@pytest.mark.parametrize("wrapper", ["normalize_reward", {"name": "scale_reward", "factor": 3.0}])
def test_rewards_are_raw_and_the_wrapped_ones_are_shown_beside_them(wrapper, quick):
    """They are those of a rollout, which go on from what the wrappers of the run remember."""
    context = quick("CartPole-v1", wrappers=[wrapper])
    context.train()
    spaces_ = (context.run.observation_space, context.run.action_space)
    expected = context.rollout(3, seed=5)
    for number, episode in enumerate(played(task_of_run(context.run, 5), 3, 0)):
        shown = episode_data(number, episode.trajectory, *spaces_)
        assert set(shown["rewards"]) == {1}
        np.testing.assert_allclose(shown["series"]["wrapped reward"], expected[number].wrapped_rewards, rtol=1e-3)


def test_settings_that_differ_are_named_and_others_are_not(view, cart):
    _, data = view(cart, "--episodes", 0)
    changed = {path: (value, default) for path, value, default in data["sources"][0]["changed"]}
    assert changed["algorithm.n_rollout_steps"] == ("8", "256")
    assert changed["env.id"] == ("CartPole-v1", "required")
    assert not {"model.name", "runner.name", "algorithm.gamma"} & set(changed)


def test_links_out_of_a_run_are_not_followed(view, make_run, tmp_path):
    run = make_run("a", [1.0])
    (tmp_path / "secret").write_text("<svg>secret</svg>")
    (run / "network.svg").symlink_to(tmp_path / "secret")
    _, data = view(run)
    assert data["sources"][0]["network"] == ""
    assert any("network.svg" in note for note in data["sources"][0]["notes"])


def test_a_run_without_a_policy_is_still_shown(view, make_run):
    _, data = view(make_run("a", [1.0]))
    assert any("No episode could be played" in note for note in data["sources"][0]["notes"])
    assert "model: is required" in view(make_run("b", [1.0]), "--episodes", 1, code=2)


@pytest.mark.parametrize("value", ["NaN", "1e999", '"text"', "[1]", '{"a": 1}', "true"])
def test_a_line_with_a_value_that_is_no_number_is_left_out(view, make_run, value):
    run = make_run("a", [1.0, 2.0])
    with (run / "metrics.jsonl").open("a") as file:
        file.write(f'{{"epoch": 3, "env_steps": 300, "eval/return_mean": 3.0, "x": {value}}}\n')
    _, data = view(run, "--episodes", 0)
    assert data["sources"][0]["curves"]["eval/return_mean"] == [1, 2]
    assert json.dumps(data, allow_nan=False)


def test_a_film_keeps_few_pictures_and_the_last():
    film = Film(8)
    for step in range(101):
        if step == 100 or film.wants(step):
            film.add(step, np.zeros((10, 10, 3), np.uint8), last=step == 100)
    steps = [step for step, _ in film.frames]
    assert len(steps) <= 8
    assert (steps[0], steps[-1]) == (0, 100)


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ((84, 84, 3), (84, 84, 3)),
        ((4, 84, 84), (84, 84)),
        ((84, 84), (84, 84)),
        ((3, 12, 12), (12, 12, 3)),
        ((5,), None),
        ((2, 3), None),
    ],
)
def test_images_among_observations_are_found(shape, shown):
    picture = as_picture(np.zeros(shape, np.uint8))
    assert (None if picture is None else picture.shape) == shown


def test_numbers_are_short_and_finite():
    given = [1.0, 0.123456789, 10**20, float("nan"), float("inf"), None, "x", True, np.float32(0.1)]
    assert [rounded(each) for each in given] == [1, 0.12346, 10**20, None, None, None, None, 1, 0.1]


def test_a_network_of_values_shows_values_and_a_box_the_most_likely_action(quick):
    values = quick("CartPole-v1", "dqn", {"algorithm.initial_buffer_size": 8, "algorithm.batch_size": 4})
    (episode,) = played(task_of_run(values.run, 3), 1, 0)
    trajectory = episode.trajectory
    thoughts = insight(values.run.policy, trajectory)
    assert (thoughts.unit, thoughts.entropy) == ("value", None)
    np.testing.assert_array_equal(thoughts.bars["action"].argmax(1), trajectory.actions["action"])
    box = quick("Pendulum-v1")
    (episode,) = played(task_of_run(box.run, 3), 1, 5)
    trajectory = episode.trajectory
    assert 2 <= len(episode.film.frames) <= 5
    likely = insight(box.run.policy, trajectory).likely["action"]
    np.testing.assert_allclose(np.clip(likely, -2, 2), trajectory.actions["action"], rtol=1e-4, atol=1e-5)


def test_a_run_that_contains_a_recording_is_a_run(view, make_run):
    run = make_run("a", [1.0])
    (run / "demos").mkdir()
    (run / "demos" / "trajectories.json").write_text("{}")
    _, data = view(run, "--episodes", 0)
    assert data["sources"][0]["curves"]["eval/return_mean"] == [1]


def test_the_events_of_each_episode_are_beside_its_steps(quick):
    run = quick({"name": "cutting_2d", "orders": 6}, overrides={"model.hidden": [4]}).run
    for each in list(played(task_of_run(run, 3), 2, 0)):
        data = episode_data(0, each.trajectory, run.observation_space, run.action_space, events=each.events)
        sheets = [step for step, name, _ in data["events"] if name == "fresh_sheet"]
        assert sheets == np.flatnonzero(each.trajectory.rewards == -1).tolist()
        assert len([name for _, name, _ in data["events"] if name == "stock"]) == 6


def test_runs_and_their_forks_are_drawn_as_a_family(view, quick, tmp_path):
    parent = quick("CartPole-v1", "a2c")
    parent.train()
    fork(parent.run_dir, ["algorithm.lr=0.02", "algorithm.n_epochs=3"], run_dir=tmp_path / "child")
    _, data = view(parent.run_dir, tmp_path / "child")
    picture = base64.b64decode(data["family"].partition(",")[2]).decode()
    assert "2 runs and who goes on from whom" in picture
    assert "lr over the steps" in picture
    assert view(parent.run_dir)[1]["family"] == ""
