"""Networks and wrappers of a user's own, for tests of what takes them."""

import gymnasium
from torch import nn


class Encoder(nn.Module):
    out_features = 4

    def __init__(self, observation_space):
        super().__init__()
        self.layer = nn.Linear(observation_space.shape[0], 4)

    def forward(self, obs):
        return self.layer(obs["observation"]).tanh()


class OwnCritic(nn.Module):
    out_features = 3

    def __init__(self, observation_space):
        super().__init__()
        self.layer = nn.Linear(observation_space.shape[0], 3)

    def forward(self, obs):
        return self.layer(obs["observation"]).relu()


class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward
