"""Environments that count, and a policy whose critic reads the count: every value of a rollout is known beforehand."""

from __future__ import annotations

import itertools

import torch
from maze_devkit.envs import CountingEnv
from torch import nn

from maze_core.models.policy import Policy


class Blind(nn.Module):
    """An encoder that sees nothing."""

    out_features = 1

    def forward(self, obs):
        return torch.zeros(len(next(iter(obs.values()))), 1)


class Table(Policy):
    """V = 100 tag + 10 episode + step, read off the observation of a CountingEnv."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space, Blind())

    def value(self, obs):
        return obs["observation"] @ torch.tensor([100.0, 10.0, 1.0])

    def forward(self, obs):
        return self.distribution(obs), self.value(obs)


def counting(truncate, tags):
    """A factory whose every `tags` environments are alike: lengths 3, 4, 5 and so on, tags 0, 1, 2 and so on.

    Those with a tag in `truncate` are truncated at their end, the others terminated.
    """
    numbers = itertools.count()
    return lambda: next(CountingEnv(3 + n % tags, n % tags, truncate=n % tags in truncate) for n in numbers)
