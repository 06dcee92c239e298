"""The episodes within many steps that were taken at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Counted:
    """The K episodes that ended within T steps of N environments, in order of time, and what has begun of others."""

    step: np.ndarray
    """[K], the step at which each ended."""
    row: np.ndarray
    """[K], its environment."""
    number: np.ndarray
    """[K], how many of its environment ended before it in these steps."""
    total: np.ndarray
    """[K] float64, its return."""
    length: np.ndarray
    """[K], its steps."""
    open_total: np.ndarray
    """[N] float64, the return so far of the unfinished episodes."""
    open_length: np.ndarray
    """[N], their steps so far."""


def counted(
    rewards: np.ndarray, ended: np.ndarray, valid: np.ndarray, totals: np.ndarray, lengths: np.ndarray
) -> Counted:
    """Return the episodes within T steps.

    Args:
        rewards: [T, N], 0 where a row is not valid.
        ended: [T, N] bool, True where a step ended an episode.
        valid: [T, N] bool, False where the environment produced a filler row.
        totals: [N], the returns so far of the episodes that go on from before.
        lengths: [N], their steps so far.
    """
    steps = len(rewards)
    # Environment after environment, so that the steps of an episode lie side by side.
    over = ended.T.ravel()
    begins = np.zeros(over.size, np.bool_)
    begins[1:] = over[:-1]
    begins[::steps] = True
    starts = np.flatnonzero(begins)
    total = np.add.reduceat(rewards.T.ravel(), starts, dtype=np.float64)
    length = np.add.reduceat(valid.T.ravel(), starts, dtype=np.int64)
    row = starts // steps
    first = np.flatnonzero(starts % steps == 0)
    total[first] += totals
    length[first] += lengths
    lasts = np.append(starts[1:], over.size) - 1
    which = np.flatnonzero(over[lasts])
    number = which - first[row[which]]
    # What is open at the end has no part in these steps where the last one ended an episode.
    going, final = ~ended[-1], np.append(first[1:], starts.size) - 1
    open_total, open_length = np.where(going, total[final], 0.0), np.where(going, length[final], 0)
    step = lasts[which] % steps
    order = np.argsort(step, kind="stable")
    ends = which[order]
    return Counted(step[order], row[ends], number[order], total[ends], length[ends], open_total, open_length)
