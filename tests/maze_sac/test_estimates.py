"""What the critics of SAC, REDQ and TQC estimate, against figures by hand."""

from __future__ import annotations

import pytest
import torch
from maze_sac.actions import Decision
from maze_sac.config import SACConfig
from maze_sac.estimates import (
    LeastOfAll,
    LeastOfSome,
    Quantiles,
    estimate_of,
    quantile_error,
    soft_target,
    squared_error,
    truncated,
)
from pydantic import ValidationError


def decision(rows, probabilities=None):
    return Decision(torch.zeros(rows, 1), probabilities, torch.zeros(rows))


def test_the_least_of_all_counts_for_target_and_policy():
    values = torch.tensor([[[3.0], [1.0]], [[2.0], [5.0]], [[4.0], [0.0]]])  # three critics, two rows
    assert LeastOfAll().following(decision(2), values).tolist() == [2, 0]
    assert LeastOfAll().objective(decision(2), values).tolist() == [2, 0]


def test_the_target_takes_the_least_of_critics_drawn_anew_and_the_policy_the_mean_of_all():
    values = torch.arange(10.0).reshape(10, 1, 1).expand(10, 4, 1)
    estimate = LeastOfSome(2, torch.Generator().manual_seed(0))
    drawn = [estimate.following(decision(4), values).unique().item() for _ in range(500)]
    # The least of two different ones of ten: 9 of 45 pairs for the first, and never the last.
    assert set(drawn) == set(range(9))
    assert drawn.count(0) / 500 == pytest.approx(9 / 45, abs=0.06)
    assert estimate.objective(decision(4), values).tolist() == [4.5] * 4


def test_choices_are_weighed_by_their_probabilities_before_the_least_is_taken():
    values = torch.tensor([[[0.0, 4.0]], [[2.0, 3.0]], [[9.0, 9.0]]])
    made = decision(1, torch.tensor([[0.25, 0.75]]))
    everything = LeastOfSome(3, torch.Generator())
    assert everything.following(made, values).tolist() == [2.75]
    assert everything.objective(made, values).item() == pytest.approx((3 + 2.75 + 9) / 3)


def test_the_largest_quantiles_of_the_mixture_are_left_out():
    """Of all critics together: one critic may lose all of its quantiles, another one none."""
    quantiles = torch.tensor([[[1.0, 9.0, 2.0]], [[3.0, 0.0, 4.0]]])
    assert truncated(quantiles, 0).tolist() == [[0, 1, 2, 3, 4, 9]]
    assert truncated(quantiles, 1).tolist() == [[0, 1, 2, 3]]
    assert truncated(torch.stack((quantiles[0] + 10, quantiles[1])), 2).tolist() == [[0, 3]]
    assert Quantiles(1).following(decision(1), quantiles).tolist() == [[0, 1, 2, 3]]
    assert Quantiles(1).objective(decision(1), quantiles).item() == pytest.approx(19 / 6)


def test_the_quantile_huber_loss_by_hand():
    """Two quantiles, at 1/4 and 3/4, and samples 0.5 and 3 of the return."""
    quantiles, samples = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[0.5, 3.0]])
    # errors: 0.5, 3 for the first; -0.5, 2 for the second. Huber: 0.125, 2.5; 0.125, 1.5.
    expected = (0.25 * 0.125 + 0.25 * 2.5 + (1 - 0.75) * 0.125 + 0.75 * 1.5) / 4
    assert quantile_error(quantiles, samples).item() == pytest.approx(expected)
    twice = torch.cat((quantiles, quantiles))
    assert quantile_error(twice, samples).item() == pytest.approx(2 * expected)  # summed over critics
    assert quantile_error(twice.expand(2, 7, 2), samples.expand(7, 2)).item() == pytest.approx(2 * expected)


def test_the_quantile_huber_loss_learns_quantiles():
    samples = torch.distributions.Normal(0, 10).sample((4096,))
    quantiles = torch.zeros(2, 1, 5, requires_grad=True)
    optimizer = torch.optim.Adam([quantiles], lr=0.3)
    for _ in range(400):
        optimizer.zero_grad()
        quantile_error(quantiles, samples.unsqueeze(0)).backward()
        optimizer.step()
    found, wanted = quantiles[0, 0].detach(), torch.quantile(samples, torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9]))
    torch.testing.assert_close(found, wanted, atol=0.6, rtol=0)
    torch.testing.assert_close(quantiles[0], quantiles[1])


def test_squared_errors_are_halved_averaged_and_summed_over_critics():
    assert squared_error(torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([0.0, 1.0])).item() == 1.25 + 0.25


def test_targets_of_expectations_and_of_samples():
    reward, discount, bonus = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.0]), torch.tensor([2.0, 9.0])
    assert soft_target(reward, discount, torch.tensor([4.0, 5.0]), bonus).tolist() == [4, 2]
    samples = torch.tensor([[4.0, 6.0], [5.0, 7.0]])
    assert soft_target(reward, discount, samples, bonus).tolist() == [[4, 5], [2, 2]]


@pytest.mark.parametrize(
    ("values", "kind"), [({}, LeastOfAll), ({"target_subset": 2}, LeastOfSome), ({"quantiles": 5}, Quantiles)]
)
def test_the_configuration_decides(values, kind):
    assert type(estimate_of(SACConfig(name="sac", **values), torch.Generator())) is kind


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"target_subset": 3}, "target_subset draws 3 critics, but n_critics is 2"),
        ({"quantiles": 5, "target_subset": 2}, "target_subset is for critics of expectations"),
        ({"quantiles": 5, "drop_top": 5}, "drop_top leaves out 5 quantiles per critic, but quantiles is 5"),
        ({"drop_top": 1}, "drop_top leaves out 1 quantiles per critic, but quantiles is 1"),
        ({"dropout": 1.0}, "dropout"),
        ({"beta1": 1.0}, "beta1"),
    ],
)
def test_what_contradicts_itself_is_refused(values, words):
    with pytest.raises(ValidationError, match=words):
        SACConfig(name="sac", **values)
