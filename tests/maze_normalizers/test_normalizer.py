"""Running observation statistics against numpy."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from maze_normalizers.normalizer import ObservationNormalizer

LEAVES = {
    "x": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "grid": spaces.Box(-1, 1, (2, 2), np.float64),
    "image": spaces.Box(0, 1, (8, 8, 3), np.float32),
    "pixels": spaces.Box(0, 255, (5,), np.uint8),
    "choice": spaces.Discrete(4),
}


def tree(rows, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x": torch.from_numpy(rng.normal(100, [1e-3, 1, 50], (*rows, 3)).astype(np.float32)),
        "grid": torch.from_numpy(rng.normal(-1, 2, (*rows, 2, 2)).astype(np.float32)),
        "image": torch.rand(*rows, 8, 8, 3),
        "pixels": torch.zeros(*rows, 5, dtype=torch.uint8),
        "choice": torch.zeros(rows, dtype=torch.int64),
    }


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_statistics_equal_numpys_over_all_rows(sizes, seed):
    normalizer = ObservationNormalizer(LEAVES)
    chunks = [tree((size,), seed + i) for i, size in enumerate(sizes)]
    for chunk in chunks:
        normalizer.update(chunk)
    assert normalizer.count.item() == sum(sizes)
    for key, (mean, std) in normalizer.statistics().items():
        rows = np.concatenate([chunk[key].numpy() for chunk in chunks]).reshape(sum(sizes), -1).astype(np.float64)
        np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-10)
        np.testing.assert_allclose(std, rows.std(0), rtol=1e-6, atol=1e-9)


def test_rows_marked_invalid_are_left_out():
    obs = tree((4, 5))
    valid = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) > 0.4
    masked, reference = ObservationNormalizer(LEAVES), ObservationNormalizer(LEAVES)
    masked.update(obs, valid)
    reference.update({key: leaf[valid] for key, leaf in obs.items()})
    assert masked.count.item() == valid.sum().item()
    for (name, ours), theirs in zip(masked.state_dict().items(), reference.state_dict().values(), strict=True):
        assert ours.equal(theirs), name
    masked.update(obs, torch.zeros(4, 5, dtype=torch.bool))
    assert masked.count.item() == valid.sum().item()


def test_floats_are_normalised_and_clipped_and_the_rest_passes():
    normalizer = ObservationNormalizer(LEAVES)
    obs = tree((500,))
    same = normalizer(obs)
    assert same["x"].max() == 10.0  # before any update only the clip acts
    normalizer.update(obs)
    normalized = normalizer(obs)
    for key in ("x", "grid"):
        flat = normalized[key].reshape(500, -1).double()
        assert flat.mean(0).abs().max() < 1e-2
        assert (flat.std(0) - 1).abs().max() < 5e-2
    for key in ("image", "pixels", "choice"):
        assert normalized[key] is obs[key]
    assert normalizer({**obs, "x": obs["x"] * 1e6})["x"].abs().max() == 10.0


def test_only_update_changes_statistics_and_a_state_dict_restores_them():
    normalizer = ObservationNormalizer(LEAVES).train()
    normalizer.update(tree((50,)))
    before = copy.deepcopy(normalizer.state_dict())
    for _ in range(3):
        normalizer(tree((7,), seed=1))
    assert all(leaf.equal(before[name]) for name, leaf in normalizer.state_dict().items())
    other = ObservationNormalizer(LEAVES)
    other.load_state_dict(before)
    obs = tree((7,), seed=2)
    assert other(obs)["x"].equal(normalizer(obs)["x"])
    other.update(obs)
    normalizer.update(obs)
    assert other.statistics()["grid"][1].equal(normalizer.statistics()["grid"][1])


def test_the_input_is_not_written_to():
    obs = tree((7,))
    kept = {key: leaf.clone() for key, leaf in obs.items()}
    normalizer = ObservationNormalizer(LEAVES)
    normalizer.update(obs)
    normalizer(obs)
    assert all(leaf.equal(kept[key]) for key, leaf in obs.items())


def test_a_constant_leaf_stays_finite():
    normalizer = ObservationNormalizer({"x": LEAVES["x"]})
    normalizer.update({"x": torch.full((20, 3), 7.0)})
    assert normalizer({"x": torch.full((1, 3), 7.0)})["x"].abs().max().item() == pytest.approx(0.0, abs=1e-6)
    assert normalizer({"x": torch.full((1, 3), 8.0)})["x"].isfinite().all()


def test_merging_what_others_saw_equals_having_seen_it():
    whole, ours, theirs = (ObservationNormalizer(LEAVES) for _ in range(3))
    chunks = [tree((size,), seed) for seed, size in enumerate((5, 1, 30))]
    for chunk in chunks:
        whole.update(chunk)
    ours.update(chunks[0])
    theirs.update(chunks[1])
    theirs.update(chunks[2])
    ours.merge(theirs.state_dict())
    assert ours.count.item() == 36
    for name, value in ours.state_dict().items():
        torch.testing.assert_close(value, whole.state_dict()[name], rtol=1e-9, atol=1e-9)
