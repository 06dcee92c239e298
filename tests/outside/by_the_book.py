"""What an author outside of Maze builds with nothing but the constructors that the reference for authors prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round
from maze_models.beta import BetaHead
from maze_offpolicy import EpsilonGreedy
from maze_offpolicy.collect.replay_collector import ReplayCollector
from maze_offpolicy.collect.replay_memory import ReplayMemory
from maze_offpolicy.learn.targets import Target
from maze_offpolicy.replay.joint import Joint
from maze_offpolicy.replay.selectors import ByPriority, Uniform
from maze_onpolicy.collect.rollout_collector import RolloutCollector
from maze_onpolicy.collect.sampler import Sampler
from maze_onpolicy.data.reward_scale import RewardScale
from maze_onpolicy.learn.advantages import advantage_rows

from maze_core import Algorithm, AlgorithmConfig, Batch, Loss, Plugin, PluginConfig, Policy, Run, hookimpl
from maze_core.base.seeding import EpisodeSeeds, Purpose, generator
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.data.sequences import Sequences
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.vector import Episode
from maze_core.models.distributions.continuous import BoxScale
from maze_core.models.families import (
    BernoulliHead,
    CategoricalHead,
    GaussianConfig,
    GaussianHead,
    LogitsConfig,
    MultiCategoricalHead,
)
from maze_core.models.memory import distribution_of

Way = Literal["rollouts", "uniform", "priority", "joint", "sequences"]


class BookConfig(AlgorithmConfig):
    name: str = "book"
    lr: float = 0.01
    epoch_length: int = 2
    n_rollout_steps: int = 6
    replay_buffer_size: int = 200
    initial_buffer_size: int = 30
    way: Way = "rollouts"


class Book(Algorithm):
    """Makes what paid more likely, from whichever collector and selector it is told."""

    Config = BookConfig
    config: BookConfig
    needs_critic = True
    supports_memory = True
    supports_agents = True
    action_spaces = (spaces.Discrete,)

    def setup(self, run: Run) -> None:
        self._run, self._target = run, Target(run.policy)
        self._collector: Any = self.keep("collector", self._collector_of(run, self.config))

    def _collector_of(self, run: Run, config: BookConfig) -> Any:
        if config.way == "rollouts":
            return RolloutCollector(run, config.n_rollout_steps, 2, reward_scale=RewardScale(0.9))
        rngs = [generator(run.seed, Purpose.POLICY_NOISE, 7, row) for row in range(run.rows_of(2))]
        exploration = EpsilonGreedy(run.observation_space, run.action_space, rngs, lambda: 0.1)
        selectors = {"uniform": Uniform(), "priority": ByPriority(0.5), "joint": Joint()}
        return ReplayCollector(
            run,
            config.n_rollout_steps,
            2,
            config.replay_buffer_size,
            exploration,
            initial_steps=config.initial_buffer_size,
            selector=selectors.get(config.way),
            memory=ReplayMemory(run.policy, 4, 2) if config.way == "sequences" else None,
        )

    def modules(self) -> dict[str, torch.nn.Module]:
        return {"target": self._target.module}

    def warm_up(self) -> bool:
        return self.config.way == "rollouts" or bool(self._collector.warm_up())

    def batches(self) -> Iterator[Batch]:
        collected = self._collector.collect()
        if self.config.way == "rollouts":
            yield advantage_rows(self._run.policy, collected, 0.9, 0.9, self._run.device)[0]
            return
        batch = self._collector.sample(12, 0.9)
        yield batch
        if self.config.way == "priority":
            errors = np.ones(len(batch), np.float32)
            self._collector.replay.priorities.update(batch.extra["slot"].numpy(), errors)
        self._target.follow(0.1)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        paid = batch.extra["advantage" if self.config.way == "rollouts" else "reward"]
        log_prob = distribution_of(policy, batch.obs, batch.sequences).log_prob(batch.actions)
        return Loss(-(log_prob * paid).mean())


class Looks(Plugin):
    """After each epoch plays some steps beside the run, and keeps what it has seen."""

    Config = PluginConfig

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: Any) -> None:
        builder = EnvBuilder(run.config.env, seed=run.seed, purpose="looking")
        env, seeds = SerialVectorEnv(builder, 2), EpisodeSeeds(run.seed, Purpose.PLUGIN, (9, run.epoch))
        network = NetworkAgent.sampling(run.policy, 2, torch.Generator().manual_seed(run.epoch))
        rollout = Sampler(network, env, 5, seeds).collect()
        env.close()
        ends = [Episode(row, 0, float(rewards.sum()), len(rewards)) for row, rewards in enumerate(rollout.rewards.T)]
        self.seen = [each.episode_return for each in ends]
        obs = {key: torch.from_numpy(leaf[:-1, 0].copy()) for key, leaf in rollout.obs.items()}
        with torch.no_grad():
            together = run.policy.distribution(obs, Sequences(np.array([5]), run.policy.initial_state(1)))
        agent = NetworkAgent(run.policy, SharedNoise(2, torch.Generator().manual_seed(1)))
        self.seen += [float(together.entropy().mean()), agent.memory is not None]


class Lanterns(MultiAgentEnv):
    """Two agents, who see a light and are paid for pressing where it is."""

    agents = ("left", "right")
    observation_spaces = dict.fromkeys(agents, spaces.Discrete(3))
    action_spaces = dict.fromkeys(agents, spaces.Discrete(3))

    def reset(self, seed: int) -> Round:
        self._rng, self._steps = np.random.default_rng(seed), 0
        return Round(self._look())

    def step(self, actions: Mapping[str, Any]) -> Round:
        rewards = {name: float(action == self._seen[name]) for name, action in actions.items()}
        self._steps += 1
        return Round({}, rewards, truncated=self._look()) if self._steps == 7 else Round(self._look(), rewards)

    def _look(self) -> dict[str, int]:
        self._seen = {name: int(self._rng.integers(3)) for name in self.agents}
        return dict(self._seen)


class LanternsSource(Plugin):
    """The env source of this game."""

    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return Lanterns()


def drawn_from_each_head() -> dict[str, torch.Tensor]:
    """Return samples of each head in environment units, for two rows of features."""
    box = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32))
    logits, gaussian = LogitsConfig(temperature=2.0), GaussianConfig(log_std_init=-1.0)
    heads: dict[str, Any] = {
        "choice": CategoricalHead(spaces.Discrete(3), 4, logits),
        "choices": MultiCategoricalHead(spaces.MultiDiscrete([2, 3]), 4, logits),
        "bits": BernoulliHead(spaces.MultiBinary(3), 4, logits),
        "normal": GaussianHead(box, 4, gaussian, squashed=True),
        "beta": BetaHead(box, 4),
    }
    found = {}
    for name, head in heads.items():
        distribution = head.forward(torch.zeros(2, 4), None)
        noise = head.draw_noise((2, *head.shape), torch.Generator().manual_seed(0))
        found[name] = distribution.env_action(distribution.sample(noise))
    found["middle"] = BoxScale(box).to_env(torch.zeros(1, 2))
    return found
