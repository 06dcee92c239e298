"""The shares of a batch that several learners learn from."""

import numpy as np
import pytest
import torch
from maze_impala.trajectories import shares_of_trajectories

from maze_core.data.batch import Batch, even_shares
from maze_core.data.sequences import Sequences


def batch_of(rows, **parts):
    obs = {"observation": torch.arange(rows, dtype=torch.float32)}
    return Batch(obs, {}, {"weight": torch.ones(rows)}, **parts)


@pytest.mark.parametrize(("rows", "count"), [(1, 3), (7, 2), (8, 3), (3, 3), (64, 5)])
def test_even_shares_are_all_rows_once_the_largest_first(rows, count):
    shares = even_shares(batch_of(rows), count)
    sizes = [len(share.batch) for share in shares]
    assert torch.cat([share.batch.obs["observation"] for share in shares]).tolist() == list(range(rows))
    assert sizes == [share.weight for share in shares]
    assert max(sizes) == sizes[0]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("lengths", [[9], [1, 9], [9, 1, 1, 1], [2, 3, 4, 5, 6], [5] * 8])
@pytest.mark.parametrize("shuffled", [False, True])
def test_shares_of_sequences_keep_them_whole(lengths, shuffled):
    rows = sum(lengths)
    order = torch.randperm(rows) if shuffled else None
    state = {"hidden": torch.arange(len(lengths), dtype=torch.float32)}
    batch = batch_of(rows, sequences=Sequences(np.array(lengths), state, order))
    whole = [part.tolist() for part in torch.split(batch.sequences.ordered(batch.obs["observation"]), lengths)]
    found = []
    for share in (shares := even_shares(batch, 3)):
        own = share.batch.sequences
        parts = torch.split(own.ordered(share.batch.obs["observation"]), own.lengths.tolist())
        found += [(int(state), part.tolist()) for state, part in zip(own.state["hidden"], parts, strict=True)]
    assert found == list(enumerate(whole))
    assert len(shares[0].batch), "the driver has rows"


def test_shares_of_trajectories_are_columns():
    steps, columns = 4, 5
    batch = batch_of(steps * columns)
    batch.extra["weight"][::2] = 0
    # Agent row 2 has two sequences, the others one each; they lie agent row by agent row.
    agent_rows = torch.arange(steps * columns).reshape(steps, columns).T
    lengths = np.array([4, 4, 1, 3, 4, 4])
    state = {"hidden": torch.arange(6.0)}
    batch.sequences = Sequences(lengths, state, agent_rows.reshape(-1))
    shares = shares_of_trajectories(batch, 2, steps)
    assert [share.batch.obs["observation"].reshape(steps, -1).tolist() for share in shares] == [
        agent_rows[:3].T.float().tolist(), agent_rows[3:].T.float().tolist(),
    ]  # fmt: skip
    assert [share.weight for share in shares] == [float(share.batch.extra["weight"].sum()) for share in shares]
    for share, expected in zip(shares, ([4, 4, 1, 3], [4, 4]), strict=True):
        own = share.batch.sequences
        assert own.lengths.tolist() == expected
        ordered = own.ordered(share.batch.obs["observation"])
        assert all(bool((part.diff() == columns).all()) for part in torch.split(ordered, expected))
