"""Minibatches: every row once, in an order of the generator's, none of a single row."""

import numpy as np
import pytest
import torch

from maze_core.data.batch import Batch, Loss


def rows(count):
    numbers = torch.arange(count)
    return Batch({"a": numbers.float(), "b": torch.stack([numbers, -numbers], 1)}, {"action": numbers}, {"w": numbers})


def sizes(count, batch_size):
    return [len(each) for each in rows(count).minibatches(batch_size, np.random.default_rng(0))]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 24])
@pytest.mark.parametrize("batch_size", [1, 2, 6, 7, 8, 23, 25])
def test_every_row_once_and_rows_stay_together(count, batch_size):
    """Batch sizes 1, n - 1, n and n + 1."""
    seen = []
    for batch in rows(count).minibatches(batch_size, np.random.default_rng(0)):
        assert len(batch) <= batch_size + 1
        numbers = batch.actions["action"]
        assert torch.equal(batch.obs["a"], numbers.float())
        assert torch.equal(batch.obs["b"], torch.stack([numbers, -numbers], 1))
        assert torch.equal(batch.extra["w"], numbers)
        seen += numbers.tolist()
    assert sorted(seen) == list(range(count))


def test_a_remainder_of_one_row_joins_the_minibatch_before_it():
    """Nothing can be normalised over a single row."""
    assert sizes(7, 3) == [3, 4]
    assert sizes(8, 3) == [3, 3, 2]
    assert sizes(7, 6) == [7]
    assert sizes(1, 6) == [1]
    assert sizes(3, 1) == [1, 1, 1]


def test_the_order_is_the_generators():
    def order(seed):
        return [each.actions["action"].tolist() for each in rows(20).minibatches(8, np.random.default_rng(seed))]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_loss_with_a_further_term():
    weight = torch.tensor(2.0, requires_grad=True)
    loss = Loss(weight * 3, {"policy": torch.tensor(6.0)}).plus("extra", weight.square())
    loss.total.backward()
    assert loss.total.item() == 10
    assert weight.grad.item() == 7
    assert {name: value.item() for name, value in loss.metrics.items()} == {"policy": 6.0, "extra": 4.0}
    assert not loss.metrics["extra"].requires_grad
