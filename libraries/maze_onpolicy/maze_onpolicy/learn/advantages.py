"""What on-policy algorithms share: advantages of a rollout as a batch of rows, and the actor-critic loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from maze_core import Batch, Loss, TensorTree, remembers, take_rows, to_tensors
from maze_core.base.tree import flat_rows
from maze_core.data.batch import concat_tensors, weighted_mean
from maze_onpolicy.data.discounts import carried_rows, rollout_discounts
from maze_onpolicy.data.returns import explained_variance, generalized_advantages
from maze_onpolicy.data.rounding import ROUNDING, nearly_equal

if TYPE_CHECKING:
    from maze_core import Policy, Rollout, Sequences
    from maze_onpolicy.closed_form.actor_critic import ClosedForm
    from maze_onpolicy.constraints import RolloutCosts

    Judge = Callable[[TensorTree, TensorTree], tuple[Tensor, Tensor]]
    # Returns values and log-probabilities, both [B], for observations and actions with leaves [B, …].

_EPS = 1e-16
# Added to variances.
_CHUNK = 2**21
# Observed values in one forward pass without gradients: they and the layers' outputs stay in the caches.
_CHUNK_ROWS = 16_384
_COEFFICIENTS = 1_000
# Tensors of coefficients that are kept: those with schedules are others in each update.


def actor_critic_loss(
    config: Any,
    epoch: int,
    policy: Tensor,
    critic: Tensor,
    entropy: Tensor,
    weight: Tensor | None = None,
    **metrics: Tensor,
) -> Loss:
    """Return the weighted sum of an actor-critic's losses; in the first `critic_burn_in_epochs`, only the critic's.

    Args:
        config: with `policy_loss_coef`, `value_loss_coef`, `entropy_coef` and `critic_burn_in_epochs`.
        epoch: number of finished epochs.
        policy: [B], policy loss of each row.
        critic: [B], critic loss of each row.
        entropy: [B], entropy of the policy; it is subtracted from the loss.
        weight: [B], weight of each row, summing to 1; None: equal weights.
        metrics: further scalars to log.
    """
    # For small batches the call dominates: one mean of three stacked rows is cheaper than three means.
    rows = torch.stack((policy, critic, entropy))
    parts = weighted_mean(rows, weight)
    if epoch < config.critic_burn_in_epochs:  # the policy must have no gradient, not one of 0
        total = weighted_mean(critic, weight)
    else:
        total = _weighted(parts, config.policy_loss_coef, config.value_loss_coef, -config.entropy_coef)
    named = dict(zip(("policy", "value", "entropy"), parts.detach().unbind(), strict=True))
    return Loss(total, named | {name: metric.detach() for name, metric in metrics.items()})


def _weighted(parts: Tensor, *coefficients: Any) -> Tensor:
    """Return the weighted sum of losses [3], shape (); what has a schedule is a tensor in steps that are recorded."""
    if any(isinstance(each, Tensor) for each in coefficients):
        return torch.stack([part * each for part, each in zip(parts.unbind(), coefficients, strict=True)]).sum()
    known = _coefficients.cache_info().currsize < _COEFFICIENTS
    return parts @ (_coefficients if known else _coefficients.__wrapped__)(*coefficients, parts.dtype, parts.device)


@cache  # never emptied: recorded steps of a GPU read the tensors where they are
def _coefficients(policy: float, critic: float, entropy: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the coefficients as a tensor, cached because building one for every minibatch is slow."""
    return torch.tensor([policy, critic, entropy], dtype=dtype, device=device)


def normalized(advantage: Tensor, group: Tensor | None = None, counts: Tensor | None = None) -> Tensor:
    """Return advantages [B] with mean 0 and standard deviation 1; a single row or equal rows become 0.

    Args:
        advantage: [B]
        group: [B], numbers of groups that are normalised apart, such as those of different networks; None: all rows
            together.
        counts: [B] bool, False for rows that do not count, which become 0; None: all rows count.
    """
    if group is None and counts is None:
        return _standardized(advantage)
    counts = torch.ones_like(advantage, dtype=torch.bool) if counts is None else counts
    apart = torch.zeros_like(advantage)
    for number in (None,) if group is None else torch.bincount(group).nonzero().flatten():
        rows = counts if number is None else counts & (group == number)
        apart[rows] = _standardized(advantage[rows])
    return apart


def _standardized(values: Tensor) -> Tensor:
    """Return values [B] with mean 0 and standard deviation 1; those that differ only by rounding become 0."""
    if not values.numel():
        return values
    scaled, mean, inverse = torch.native_layer_norm(values, values.shape, None, None, _EPS)
    # Values that are nearly equal have a tiny variance. Mostly it is larger, as two numbers tell: v > (2 r m)^2.
    if values.is_cpu and inverse.item() ** 2 * ((2 * ROUNDING * mean.item()) ** 2 + _EPS) < 1:
        return scaled
    return scaled.masked_fill(nearly_equal(*torch.aminmax(values)), 0.0)


def advantage_rows(
    policy: Policy,
    rollout: Rollout,
    gamma: float,
    gae_lambda: float,
    device: torch.device,
    sequence_length: int | None = None,
    *,
    log_probs: bool = False,
    baseline: bool = True,
    formulas: ClosedForm | None = None,
    costs: RolloutCosts | None = None,
) -> tuple[Batch, dict[str, float]]:
    """Compute values and advantages of a rollout in one batched pass, flattened to rows.

    Args:
        policy: has a critic, unless `baseline` is False.
        rollout: T steps of N environments.
        gamma: discount of a decision: of a step, unless observations say what has elapsed.
        gae_lambda: as for `generalized_advantages`.
        device: the batch's device.
        sequence_length: most rows of a sequence, for a policy that remembers; None: up to the whole rollout.
        log_probs: also compute the log-probabilities of the actions, where possible in the same pass.
        baseline: False: all values are 0, so that advantages are sums of rewards; there are no metrics.
        formulas: computes the same as the policy; None: there are none for it, and the policy itself does.
        costs: those of the run's constraints, which change the advantages; None: it has none.

    Returns:
        A batch of the valid rows, whose `extra` holds `value`, `advantage` and `target` (the critic's regression
        target), and `log_prob` if asked for, each [B]; and metrics of the rollout. The rows are in order of time; for a
        policy that remembers they lie sequence by sequence. Where actions were carried over from earlier rollouts,
        `carried` is their log-probability at that time, and nan for others; `log_prob` contains it.
    """
    if costs is not None:
        costs.observe(rollout)
    steps, num_envs = rollout.rewards.shape
    obs = to_tensors(flat_rows(rollout.obs), device)
    actions = to_tensors(flat_rows(rollout.actions), device)
    sequences: Sequences | None = None
    log_prob: Tensor | None = None
    valid = rollout.valid
    if remembers(policy):
        from maze_onpolicy.learn.recurrent import remembered_values

        values, next_values, sequences = remembered_values(policy, rollout, obs, sequence_length, baseline=baseline)
        keep = sequences.order
        sequences.order = None
    else:
        keep = None if valid.all() else torch.from_numpy(np.flatnonzero(valid)).to(device)
        # Filler rows may have actions that are impossible where there are masks, which no formulas know.
        together = log_probs and (keep is None or formulas is not None)
        values, next_values, log_prob = (
            _values_of(policy, formulas, rollout, obs, actions if together else None, device)
            if baseline
            else (np.zeros_like(rollout.rewards), np.zeros_like(rollout.rewards), None)
        )
    advantages = generalized_advantages(
        rollout.rewards,
        values,
        next_values,
        discounts=rollout_discounts(rollout, gamma),
        continues=rollout.continues.astype(np.float32),
        gae_lambda=gae_lambda,
    )
    targets = advantages + values
    arrays = {**rollout.extra, "value": values, "advantage": advantages, "target": targets}
    if (carried := carried_rows(rollout)) is not None:
        arrays["carried"] = carried
    batch = Batch(
        obs=take_rows(obs, np.s_[: steps * num_envs]),
        actions=actions,
        extra=to_tensors(flat_rows(arrays), device),
    )
    if keep is not None:
        batch = batch.map(lambda leaf: leaf.index_select(0, keep))
        log_prob = None if log_prob is None else log_prob.index_select(0, keep)
    batch.sequences = sequences
    if costs is not None:
        costs.penalize(batch)
    if log_probs:
        now = action_log_probs(policy, batch) if log_prob is None else log_prob
        before = batch.extra.get("carried")
        batch.extra["log_prob"] = now if before is None else torch.where(before.isnan(), now, before)
    explained = explained_variance(values[valid], targets[valid]) if baseline else None
    return batch, {} if explained is None else {"train/explained_variance": explained}


def _values_of(
    policy: Policy,
    formulas: ClosedForm | None,
    rollout: Rollout,
    obs: TensorTree,
    actions: TensorTree | None,
    device: torch.device,
) -> tuple[np.ndarray, np.ndarray, Tensor | None]:
    """Return the values of the observations before and after each step, both [T, N].

    With `actions`, leaves [T * N, …], also their log-probabilities, [T * N], from the same pass.
    """
    value = policy.value if formulas is None else formulas.value
    log_prob: Tensor | None = None
    if actions is None:
        values = _values(value, obs)
    else:
        judge = partial(_judge, policy) if formulas is None else formulas.judge
        acted, log_prob = _values_and_log_probs(judge, obs, actions)
        values = np.concatenate([acted, _values(value, take_rows(obs, np.s_[len(acted) :]))])
    return *_by_step(value, values, rollout, device), log_prob


def rollout_values(
    value: Callable[[TensorTree], Tensor], rollout: Rollout, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of the observations before and after each step, both [T, N], without a graph.

    For critics besides the policy's, such as one of costs; `generalized_advantages` takes both.

    Args:
        value: returns the values [B] of observations, leaves [B, …].
        rollout: T steps of N environments.
        device: where `value` computes.
    """
    return _by_step(value, _values(value, to_tensors(flat_rows(rollout.obs), device)), rollout, device)


def _by_step(
    value: Callable[[TensorTree], Tensor], values: np.ndarray, rollout: Rollout, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """Return the values [(T + 1) * N] of a rollout's observations as those before and after each step, both [T, N]."""
    values = values.reshape(-1, rollout.rewards.shape[1])
    values, next_values = values[:-1], values[1:].copy()
    if cut := rollout.truncations:  # one pass for all of them
        times = np.repeat([t for t, _, _ in cut], [len(rows) for _, rows, _ in cut])
        finals = concat_tensors([to_tensors(obs, device) for _, _, obs in cut])
        next_values[times, np.concatenate([rows for _, rows, _ in cut])] = _values(value, finals)
    return values, next_values


def _values_and_log_probs(judge: Judge, obs: TensorTree, actions: TensorTree) -> tuple[np.ndarray, Tensor]:
    """Return values and log-probabilities of the first rows of `obs`, both [B], for actions with leaves [B, …]."""
    with torch.no_grad():
        chunks = [
            judge(take_rows(obs, rows), take_rows(actions, rows))
            for rows in _chunks(len(next(iter(actions.values()))), obs)
        ]
    values, log_probs = zip(*chunks, strict=True)
    return torch.cat(values).cpu().numpy(), torch.cat(log_probs)


def _judge(policy: Policy, obs: TensorTree, actions: TensorTree) -> tuple[Tensor, Tensor]:
    distribution, value = policy(obs)
    return value, distribution.log_prob(actions)


def action_log_probs(policy: Policy, batch: Batch) -> Tensor:
    """Return log-probabilities [B] of a batch's actions under the current policy, without a graph."""
    with torch.no_grad():
        if batch.sequences is not None:
            return policy.distribution(batch.obs, batch.sequences).log_prob(batch.actions)
        chunks = [
            policy.distribution(take_rows(batch.obs, rows)).log_prob(take_rows(batch.actions, rows))
            for rows in _chunks(len(batch), batch.obs)
        ]
    return torch.cat(chunks)


def _values(value: Callable[[TensorTree], Tensor], obs: TensorTree) -> np.ndarray:
    """Return a critic's values [B] of observations, without a graph."""
    with torch.no_grad():
        rows = len(next(iter(obs.values())))
        chunks = [value(take_rows(obs, part)) for part in _chunks(rows, obs)]
    return torch.cat(chunks).cpu().numpy()


def _chunks(rows: int, obs: TensorTree) -> list[slice]:
    """Return consecutive slices of rows for one forward pass each, which bound its memory."""
    width = sum(leaf[:1].numel() for leaf in obs.values())
    size = min(max(_CHUNK // max(width, 1), 1), _CHUNK_ROWS)
    return [slice(start, min(start + size, rows)) for start in range(0, max(rows, 1), size)]
