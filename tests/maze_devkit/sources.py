"""The sources of sound plugins, to be broken in one place."""

WRAPPER = '''
"""A wrapper."""

import gymnasium
from pydantic import ConfigDict, field_serializer
from maze_core import Plugin, PluginConfig, hookimpl


class Config(PluginConfig):
    """Its parameters."""

    scale: float = 0.25
    """What is multiplied."""


class Halved(gymnasium.ObservationWrapper):
    """Half of everything."""

    steps = 0

    def reset(self, *, seed=None, options=None):
        """Begin."""
        self.steps = 0
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observation(observation), info

    def observation(self, observation):
        """Half of it."""
        return observation / 2

    def step(self, action):
        """Step."""
        self.steps += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self.observation(observation), reward, terminated, truncated, info


class Tested(Plugin):
    """Halve observations."""

    Config = Config

    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        env = yield
        return Halved(env)
'''

ENV = '''
"""An environment."""

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_core import Plugin, hookimpl


class Walk(gymnasium.Env):
    """A walk."""

    def __init__(self):
        self.observation_space = spaces.Box(-100, 100, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = self.np_random.normal(), 0
        return self.observe(), {}

    def step(self, action):
        self.at += int(np.sum(action)) - 1
        self.steps += 1
        over = bool(self.np_random.random() < 0.05)
        return self.observe(), float(self.at), over, self.steps >= 40, {}

    def observe(self):
        return np.array([np.clip(self.at, -50, 50), 0], np.float32)


class Tested(Plugin):
    """Walks."""

    @hookimpl
    def make_env(self, config, seed, index):
        return Walk()
'''

ALGORITHM = '''
"""An algorithm."""

from maze_core import Algorithm, AlgorithmConfig, Loss, hookimpl
from maze_onpolicy.collect.rollout_collector import RolloutCollector
from maze_core.plugins.config import params
from maze_onpolicy.learn.advantages import advantage_rows, normalized


class Config(AlgorithmConfig):
    """Its parameters."""

    n_rollout_steps: params.RolloutSteps = 64
    lr: params.LearningRate = 3e-3
    gamma: params.Gamma = 0.99


class Tested(Algorithm):
    """A policy gradient."""

    Config = Config
    needs_critic = True
    supports_tensors = True

    def setup(self, run):
        self.run = run
        self.collector = RolloutCollector(run, self.config.n_rollout_steps)

    def batches(self):
        rollout = self.collector.collect()
        rows, metrics = advantage_rows(self.run.policy, rollout, self.config.gamma, 0.95, self.run.device)
        self.run.record(metrics)
        yield rows

    @hookimpl
    def compute_loss(self, policy, batch):
        distribution, value = policy(batch.obs)
        log_prob = distribution.log_prob(batch.actions)
        policy_loss = -(log_prob * normalized(batch.extra["advantage"])).mean()
        value_loss = (value - batch.extra["target"]).square().mean()
        return Loss(policy_loss + 0.5 * value_loss, {"policy": policy_loss.detach()})

    def state(self):
        return {"collector": self.collector.state()}

    def load_state(self, state):
        self.collector.load_state(state["collector"])
'''

MODEL = '''
"""A model."""

import torch
from maze_core import Plugin, hookimpl
from maze_core.base.errors import ConfigError
from maze_core.models.assembly import ModelConfig, assemble_policy
from maze_core.models.inputs import FlatInput, input_spaces
from torch import nn


class Encoder(nn.Module):
    """One layer."""

    def __init__(self, leaves):
        super().__init__()
        self.out_features = 8
        self.input = FlatInput(leaves)
        self.first = nn.Linear(self.input.out_features, 8)

    def forward(self, obs):
        return self.first(self.input(obs)).tanh()


class Tested(Plugin):
    """One layer."""

    Config = ModelConfig

    @hookimpl
    def build_policy(self, observation_space, action_space, config):
        leaves = input_spaces(observation_space, action_space)
        policy = assemble_policy(observation_space, action_space, config, lambda: Encoder(leaves))
        return policy
'''

MEMORY = '''
"""A memory."""

from maze_core import PluginConfig
from maze_core.models.memory import Memory
from torch import nn


class Config(PluginConfig):
    """Its parameters."""

    size: int = 4
    """Averages."""


class Tested(Memory):
    """Average what was seen."""

    Config = Config

    def __init__(self, in_features, config):
        super().__init__()
        self.out_features = config.size
        self.input = nn.Linear(in_features, config.size)

    def initial_state(self, rows):
        return {"average": self.input.bias.new_zeros(rows, self.out_features)}

    def step(self, features, state):
        average = 0.5 * state["average"] + self.input(features)
        return average.tanh(), {"average": average}
'''

RUNNER = '''
"""A runner."""

from dataclasses import replace

from maze_core import vector_env
from maze_core.base.errors import RunError
from maze_core.collect.pools.runner import Runner
from maze_core.collect.pools.serial import SerialPool


class Env:
    """What is around the environments."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def reset(self, seeds, out):
        self.inner.reset(seeds, out)

    def step(self, actions, out):
        self.result = self.inner.step(actions, out)
        return self.result


class Pool(SerialPool):
    """What is around the workers."""

    def share(self, arrays):
        return super().share(arrays)

    def collect(self, timeout=None):
        return super().collect(timeout)


class Tested(Runner):
    """All in this process."""

    @property
    def default_workers(self):
        return 2

    def vector_env(self, builder, num_envs):
        return Env(vector_env(builder, num_envs))

    def workers(self, task, count):
        return Pool(task, count)
'''

CALLBACK = '''
"""A callback."""

from pathlib import Path

from maze_core import Plugin, RunError, hookimpl


class Tested(Plugin):
    """Write the epochs down."""

    @hookimpl
    def on_epoch_end(self, run, epoch):
        score = epoch.metrics.get("eval/return_mean")
        with (run.run_dir / "epochs.txt").open("a") as file:
            file.write(f"{score}\\n")
'''

POLICY = '''
"""A policy."""

import numpy as np
from maze_core import ActingPolicy


class Tested(ActingPolicy):
    """Go back, or anywhere."""

    def setup(self, observation_space, action_space):
        self.box = action_space.shape != ()

    def act(self, obs, rngs):
        chance = np.array([rng.integers(2) for rng in rngs])
        action = np.where(obs["observation"][:, 0] > 0, 0, chance)
        return {"action": action}
'''

SEARCHER = '''
"""A searcher."""

from random import Random

from maze_sweep.searchers.base import Searcher
from maze_sweep.searchers.space import Choices


class Tested(Searcher):
    """Draw at random."""

    def setup(self, search):
        self.search = search
        return search.trials

    def ask(self, number):
        return {path: self.draw(dimension, f"{self.search.seed}/{number}/{path}")
                for path, dimension in self.search.space.items()}

    def draw(self, dimension, seed):
        generator = Random(seed)
        if isinstance(dimension, Choices):
            return generator.choice(dimension.values)
        return dimension.at(generator.random())
'''

TEACHER = '''
"""A teacher."""

from maze_core.base.saved_state import Count, OrNone, varies
from maze_curricula import Teacher


class Tested(Teacher):
    """Draw at random, and every seventh time what was drawn first."""

    def setup(self, space, rng):
        super().setup(space, rng)
        self.first, self.drawn = space.sample(rng), 0

    def next(self, count):
        return [self.draw() for _ in range(count)]

    def draw(self):
        self.drawn += 1
        return dict(self.first) if self.drawn % 7 == 0 else self.space.sample(self.rng)

    def state(self):
        return {"drawn": varies(self.drawn, Count())}

    def load_state(self, state):
        self.drawn = state["drawn"]
'''

COMMAND = '''
"""A command."""

from typing import Annotated

import typer


def Tested(
    word: Annotated[str, typer.Argument(help="Any word.")],
    times: Annotated[int, typer.Option(help="How often.")] = 1,
):
    """Repeat a word."""
    typer.echo(word * times)
'''

SOUND = {
    "wrapper": WRAPPER,
    "env": ENV,
    "algorithm": ALGORITHM,
    "model": MODEL,
    "memory": MEMORY,
    "runner": RUNNER,
    "callback": CALLBACK,
    "policy": POLICY,
    "searcher": SEARCHER,
    "teacher": TEACHER,
    "command": COMMAND,
}
"""A sound plugin of each kind."""
