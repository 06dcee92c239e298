"""How often does a trained policy win against one that acts at random?

    python benchmarks/against_random.py RUN_DIR --games 200

The parameters that the run ended with play with their most likely actions, each agent in turn as often as the others.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core import RunContext
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.network import NetworkAgent
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.policies.random import RandomPolicy
from maze_core.collect.stepper import Stepper
from maze_core.envs.several.lanes import LanesVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core.base.tree import Tree
    from maze_core.envs.vector import Episode, StepResult

SEED = 1000
"""Of the games; those of training have other purposes."""


class Mixed(Agent):
    """Lets one agent act in some rows, and another one in the others.

    Args:
        inside: acts in `rows`, of which it is told all.
        outside: acts in the others.
        rows: [N] bool.
    """

    def __init__(self, inside: Agent, outside: Agent, rows: np.ndarray) -> None:
        self._both, self._rows = (inside, outside), rows

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows."""
        for agent in self._both:
            agent.begin(rows)

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:
        """Forget the last observation of these rows."""
        for agent in self._both:
            agent.wait(rows)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row."""
        mine, theirs = (agent.act(obs).actions for agent in self._both)
        actions = {
            key: np.where(self._rows.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, theirs[key])
            for key, leaf in mine.items()
        }
        return Choice(actions, actions)


class Games:
    """A sink that keeps the first `of_each` episodes of every copy: short ones do not count more often."""

    def __init__(self, of_each: int) -> None:
        self._of_each = of_each
        self.episodes: list[Episode] = []

    def room(self, obs: Tree) -> Tree:
        return obs

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        self.episodes += [each for each in result.episodes if each.episode_number < self._of_each]


def against_random(run_dir: Path, games: int = 200) -> dict[str, float]:
    """Return the shares of games that are won, and not lost: at least `games`, as many for each agent."""
    with RunContext.open(run_dir, "last") as context:
        run = context.run
        builder = run.env_builder("evaluation")
        number = len(builder.agents_env(0).agents)
        copies = 20 * number
        env = LanesVectorEnv(builder.agents_env, copies, tell_agents=builder.tell_agents)
        seats = np.arange(copies) % number
        mine = (np.arange(number) == seats[:, None]).reshape(-1)
        everybody = RandomPolicy(PluginConfig(name="random"))
        everybody.setup(env.observation_space, env.action_space)
        rngs = [np.random.default_rng([SEED, row]) for row in range(env.num_envs)]
        agent = Mixed(NetworkAgent(run.policy.eval(), None), RuleAgent(everybody, rngs, env.action_space), mine)
        wanted = -(-games // copies)
        stepper, sink = Stepper(env, EpisodeSeeds(SEED, Purpose.EVAL_EPISODES)), Games(wanted)
        stepper.begin(allocate(space_specs(env.observation_space, "observation"), (env.num_envs,)))
        with torch.inference_mode():
            while len(sink.episodes) < wanted * copies:
                stepper.step(agent, sink)
        env.close()
    points = [difference(episode, env.agents, int(seats[episode.env_index])) for episode in sink.episodes]
    return {
        "against_random/wins": float(np.mean([each > 0 for each in points])),
        "against_random/unbeaten": float(np.mean([each >= 0 for each in points])),
        "eval/episodes": float(len(points)),
    }


def difference(episode: Any, agents: Sequence[str], seat: int) -> float:
    """Return the return of the agent at `seat` minus the best one of the others."""
    returns = [episode.metrics.get(f"actor/{name}/return_mean", 0.0) for name in agents]
    mine = returns.pop(seat)
    return float(mine - max(returns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--games", type=int, default=200)
    options = parser.parse_args()
    for name, value in against_random(options.run_dir, options.games).items():
        print(f"{name}  {value:g}")


if __name__ == "__main__":
    main()
