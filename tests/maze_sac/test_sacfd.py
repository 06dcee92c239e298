"""SACfD: recorded episodes fill the buffer before the first step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, SeededWalk, SpacesEnv
from maze_recordings.loader import load_trajectories
from maze_recordings.writer import TrajectoryWriter

from maze_core.base.errors import ConfigError, MazeError
from maze_core.data.rollout import Trajectory

BOX = spaces.Box(np.array([-3, 1], np.float32), np.array([-1, 100], np.float32))


@pytest.mark.parametrize("algorithm", ["sac", "sacfd"])
def test_demonstrations_take_the_place_of_the_first_steps(sac, record, algorithm):
    folder = record(CountingEnv(6, tag=9, truncate=True), episodes=4)
    context = sac(CountingEnv, {"algorithm.initial_demonstrations": str(folder)}, algorithm=algorithm)
    summary = context.train()
    # No step was taken before learning began.
    assert (summary.env_steps, summary.updates) == (10, 10)
    replay = context.run.algorithm.kept["collector"].replay
    assert replay.steps == 4 * 6 + 10
    batch = replay.sample(np.random.default_rng(0), 1000, 0.9)
    recorded = batch.obs["observation"][:, 0] == 9
    now, after = batch.obs["observation"][recorded], batch.next_obs["observation"][recorded]
    torch.testing.assert_close(after, now + torch.tensor([0.0, 0.0, 1.0]))
    assert len({tuple(row) for row in now.tolist()}) == 24
    assert (batch.extra["discount"][recorded] > 0).all()


@pytest.mark.parametrize("algorithm", ["sac", "sacfd"])
def test_demonstrations_need_no_room_for_first_steps(sac, record, algorithm):
    """What a guide would have done before learning is not done, so its size says nothing."""
    folder = record(CountingEnv(6), episodes=4)
    overrides = {"algorithm.initial_demonstrations": str(folder), "algorithm.initial_buffer_size": 10_000}
    overrides |= {"algorithm.replay_buffer_size": 100, "steps": 8, "algorithm.n_epochs": 0}
    assert sac(CountingEnv, overrides, algorithm=algorithm).train().updates == 8


def test_recorded_actions_are_in_the_units_of_live_ones(sac, record):
    env = SpacesEnv(spaces.Box(-1, 1, (3,), np.float32), BOX)
    folder = record(env, episodes=3)
    context = sac(
        lambda: SpacesEnv(env.observation_space, BOX),
        {"algorithm.initial_demonstrations": str(folder)},
        algorithm="sacfd",
    )
    run = context.run
    run.algorithm.warm_up()
    recorded = torch.cat([torch.from_numpy(each.actions["action"]) for each in load_trajectories(folder)])
    batch = run.algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 500, 0.9)
    assert {tuple(row) for row in batch.actions["action"].tolist()} == {tuple(row) for row in recorded.tolist()}
    assert run.algorithm.actions.canonical(batch.actions).abs().max() <= 1


def test_demonstrations_are_required(sac):
    with pytest.raises(ConfigError, match="initial_demonstrations"):
        sac(SeededWalk, algorithm="sacfd").train()


def test_demonstrations_of_another_environment_are_refused(sac, record):
    folder = record(CountingEnv(6), episodes=1)
    context = sac(SeededWalk, {"algorithm.initial_demonstrations": str(folder)}, algorithm="sacfd")
    with pytest.raises(MazeError, match="was recorded with the observation space") as caught:
        context.train()
    assert "initial_demonstrations" in str(caught.value)
    with pytest.raises(MazeError, match="was recorded with the observation space"):
        _ = context.run  # refused as it is built, before it has a folder


@pytest.mark.parametrize("mask", [[0, 1, 1], [0, 0, 0]])
def test_a_demonstration_that_its_mask_forbids_is_named(sac, tmp_path, mask):
    class Masked(SpacesEnv):
        def observe(self):
            return {**super().observe(), "action_mask": np.ones(3, np.int8)}

    seen = spaces.Dict({"x": spaces.Box(-1, 1, (3,), np.float32), "action_mask": spaces.MultiBinary(3)})
    obs = {"x": np.zeros((4, 3), np.float32), "action_mask": np.ones((4, 3), np.int8)}
    obs["action_mask"][1] = mask
    with TrajectoryWriter(tmp_path / "demos", seen, spaces.Discrete(3)) as writer:
        writer.add(Trajectory(obs, {"action": np.zeros(3, np.int64)}, np.ones(3, np.float32), True, False, 3.0))
    overrides = {"algorithm.initial_demonstrations": str(tmp_path / "demos")}
    with pytest.raises(MazeError, match="the action of episode 0, step 1 is forbidden by its mask 'action_mask'"):
        sac(lambda: Masked(seen, spaces.Discrete(3)), overrides, algorithm="sacfd").train()


def test_missing_demonstrations_are_named(sac, tmp_path):
    with pytest.raises(MazeError, match="nowhere"):
        sac(SeededWalk, {"algorithm.initial_demonstrations": str(tmp_path / "nowhere")}, algorithm="sacfd").train()


def test_more_demonstrations_than_the_buffer_holds_are_refused(sac, record):
    folder = record(CountingEnv(50), episodes=10)
    with pytest.raises(ConfigError, match="need 510 rows") as caught:
        sac(CountingEnv, {"algorithm.initial_demonstrations": str(folder)}, algorithm="sacfd").train()
    assert "Set algorithm.replay_buffer_size to at least 512" in str(caught.value)
    enough = {"algorithm.initial_demonstrations": str(folder), "algorithm.replay_buffer_size": 512}
    sac(CountingEnv, enough, algorithm="sacfd").train()
