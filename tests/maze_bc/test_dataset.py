"""Recorded steps as rows: the split, the order, and which observation belongs to which action."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_bc.dataset import split
from maze_devkit.envs import SpacesEnv

from maze_core.base.errors import ConfigError

SEEN = spaces.Box(-np.inf, np.inf, (2,), np.float32)
LENGTHS = [5, 1, 9, 4, 6, 3, 8, 2, 7, 5]


def act_by_sight(obs):
    """An action that tells which observation it was chosen from."""
    return {"action": obs["observation"][:-1] * 0.01}


@pytest.fixture
def run(record, bc):
    """`run(**overrides)`: a built BC run on ten episodes of 50 steps."""
    action = spaces.Box(-1, 1, (2,), np.float32)

    def build(**overrides):
        folder = record(SEEN, action, LENGTHS, act_by_sight)
        return bc(lambda: SpacesEnv(SEEN, action), folder, {f"algorithm.{k}": v for k, v in overrides.items()}).run

    return build


def one_pass(run):
    """The batches of a pass."""
    batches = []
    for _ in range(run.epoch_length):
        batches += list(run.algorithm.batches())
    return batches


@pytest.mark.parametrize(("percentage", "validation"), [(0, 0), (20, 2), (50, 5), (1, 1), (99, 9), (25, 2)])
def test_episodes_are_split_whole(percentage, validation):
    train, held_out = split(10, percentage, np.random.default_rng(0))
    assert len(held_out) == validation
    assert sorted([*train, *held_out]) == list(range(10))


def test_the_split_is_of_episodes_and_follows_the_seed(run, tmp_path):
    first, second = (one_pass(run(validation_percentage=40)) for _ in range(2))
    recorded = torch.from_numpy(np.load(tmp_path / "demos0" / "observations" / "observation.npy"))
    learnt, again = (
        (recorded[:, None] == torch.cat([batch.obs["observation"] for batch in batches])).all(-1).any(1)
        for batches in (first, second)
    )
    starts = np.cumsum([0, *(length + 1 for length in LENGTHS)])
    whole = [learnt[start : start + length].all() for start, length in zip(starts, LENGTHS, strict=False)]
    assert sum(whole) == 6
    assert learnt.sum() == sum(length for length, each in zip(LENGTHS, whole, strict=True) if each)
    assert torch.equal(learnt, again)


def test_a_pass_serves_every_row_once_in_another_order_each_time(run):
    built = run(validation_percentage=0)
    assert built.epoch_length == 8
    first, second = (torch.cat([batch.obs["observation"] for batch in one_pass(built)]) for _ in range(2))
    assert [len(batch) for batch in one_pass(built)] == [7] * 7 + [1]
    assert len(first.unique(dim=0)) == 50
    assert torch.equal(first.unique(dim=0), second.unique(dim=0))
    assert not torch.equal(first, second)


def test_actions_meet_the_observations_they_were_chosen_from(run):
    for batch in one_pass(run(validation_percentage=0)):
        torch.testing.assert_close(batch.actions["action"], batch.obs["observation"] * 0.01)


def test_epochs_may_be_shorter_than_a_pass(run):
    built = run(validation_percentage=0, epoch_length=3)
    assert built.epoch_length == 3
    rows = torch.cat([batch.obs["observation"] for _ in range(8) for batch in built.algorithm.batches()])
    assert len(rows.unique(dim=0)) == 50


def test_the_normaliser_sees_the_rows_to_learn_from(record, bc):
    action = spaces.Discrete(2)
    folder = record(SEEN, action, LENGTHS, lambda obs: {"action": np.zeros(len(obs["observation"]) - 1, np.int64)})
    overrides = {"model.normalize_observations": True, "algorithm.validation_percentage": 50}
    run = bc(lambda: SpacesEnv(SEEN, action), folder, overrides).run
    rows = torch.cat([batch.obs["observation"] for batch in one_pass(run)]).double()
    ((mean, std),) = run.policy.normalizer.statistics().values()
    torch.testing.assert_close(mean, rows.mean(0))
    torch.testing.assert_close(std, rows.std(0, correction=0))
    assert int(run.policy.normalizer.count) == len(rows) < 50


def test_a_single_episode_cannot_be_split(record, bc):
    action = spaces.Discrete(2)
    folder = record(SEEN, action, [5], lambda obs: {"action": np.zeros(5, np.int64)})
    with pytest.raises(ConfigError, match="validation_percentage"):
        bc(lambda: SpacesEnv(SEEN, action), folder).train()
    alone = bc(lambda: SpacesEnv(SEEN, action), folder, {"algorithm.validation_percentage": 0})
    assert alone.train().epochs == 2


@pytest.mark.parametrize("what", ["missing", "foreign", "other spaces", "damaged"])
def test_a_wrong_data_set_is_one_clear_error(record, bc, tmp_path, what):
    action = spaces.Discrete(2)
    folder = record(SEEN, action, LENGTHS, lambda obs: {"action": np.zeros(len(obs["observation"]) - 1, np.int64)})
    its = spaces.Discrete(3) if what == "other spaces" else action
    if what == "missing":
        folder = tmp_path / "nowhere"
    if what == "foreign":
        folder = tmp_path / "other"
        folder.mkdir()
    if what == "damaged":
        (folder / "rewards.npy").write_bytes(b"")
        folder = folder.parent / folder.name
    with pytest.raises(Exception, match=str(folder.name)) as caught:
        bc(lambda: SpacesEnv(SEEN, its), folder).train()
    assert caught.value.exit_code == 2
