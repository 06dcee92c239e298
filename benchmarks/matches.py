"""How often does a trained policy win a game in turns?

    python benchmarks/matches.py RUN_DIR                        against one that acts at random
    python benchmarks/matches.py RUN_DIR --against OTHER_RUN    against another trained policy
    python benchmarks/matches.py RUN_DIR --against anybody      whatever is played: for games with few positions
    python benchmarks/matches.py RUN_DIR --set algorithm.n_simulations=100

The parameters that the runs ended with play with their most likely actions, or look ahead where the run does, each
agent in turn as often as the others. Against another run the first four moves are drawn. Against anybody every line of
the game is played.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from maze_actors.vector_env import AgentsVectorEnv
from maze_planning.planner import Decision, Planner
from maze_planning.planning import Planning, PlanningAgent

from maze_core import RunContext
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.base.tree import copy_tree, put_rows, take_rows
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.network import NetworkAgent
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.policies.random import RandomPolicy
from maze_core.collect.stepper import Stepper
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.config.base import PluginConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_planning.simulator import Simulator

    from maze_core.base.tree import Tree
    from maze_core.envs.vector import Episode, StepResult, VectorEnv
    from maze_core.run.run import Run

SEED = 1000
"""Of the games; those of training have other purposes."""
OPENING = 4
"""Moves of a game between two trained policies that are drawn: they would play the same game again and again."""
RANDOM, ANYBODY = "random", "anybody"


class Partly(Planner):
    """Lets a planner choose for some rows; in the others the policy acts alone."""

    def __init__(self, planner: Planner, rows: np.ndarray) -> None:
        self._planner, self._rows = planner, rows

    def choose(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        """Choose."""
        mine = [place for place, decision in enumerate(decisions) if self._rows[decision.row]]
        chosen = copy_tree(proposed)
        if mine:
            put_rows(chosen, mine, self._planner.choose([decisions[i] for i in mine], take_rows(proposed, mine)))
        return chosen


class Mixed(Agent):
    """Lets one agent act in some rows, and another one in the others; the first moves of a game are drawn.

    Args:
        inside: acts in `rows`, of which it is told all.
        outside: acts in the others.
        rows: [N] bool.
        drawn: acts in the first moves.
        opening: how many there are, of both sides together.
    """

    def __init__(self, inside: Agent, outside: Agent, rows: np.ndarray, drawn: Agent, opening: int) -> None:
        self._both, self._rows, self._drawn, self._opening = (inside, outside), rows, drawn, opening
        self._moves = np.zeros(len(rows), np.int64)

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows."""
        self._moves[rows] = 0
        for agent in self._both:
            agent.begin(rows)

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:
        """Forget the last observation of these rows."""
        for agent in self._both:
            agent.wait(rows)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row."""
        mine, theirs, drawn = (agent.act(obs).actions for agent in (*self._both, self._drawn))
        begins = self._moves < self._opening
        actions = {
            key: np.where(_wide(begins, leaf), drawn[key], np.where(_wide(self._rows, leaf), leaf, theirs[key]))
            for key, leaf in mine.items()
        }
        self._moves += 1
        for agent in self._both:
            if isinstance(agent, PlanningAgent):
                agent.took(copy_tree(actions))
        return Choice(actions, actions)


def _wide(rows: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    return rows.reshape(-1, *[1] * (leaf.ndim - 1))


class Games:
    """A sink that keeps the first `of_each` episodes of every copy: short ones do not count more often."""

    def __init__(self, of_each: int) -> None:
        self._of_each = of_each
        self.episodes: list[Episode] = []

    def next_buffer(self, obs: Tree) -> Tree:
        return obs

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        self.episodes += [each for each in result.episodes if each.episode_number < self._of_each]


def against(
    run_dir: Path, opponent: Path | str = RANDOM, games: int = 200, overrides: dict[str, str] | None = None
) -> dict[str, float]:
    """Return the shares of games that are won, and not lost: at least `games`, as many for each agent."""
    with ExitStack() as stack:
        run = stack.enter_context(RunContext.open(run_dir, "last", overrides)).run
        builder = run.env_builder("evaluation")
        number = len(builder.agents_env(0).agents)
        copies = 20 * number
        env = AgentsVectorEnv(builder.agents_env, copies, agent_ids=builder.agent_ids)
        seats = np.arange(copies) % number
        mine = (np.arange(number) == seats[:, None]).reshape(-1)
        if opponent == RANDOM:
            other: Agent = chance(env)
        else:
            other = trained(stack.enter_context(RunContext.open(opponent, "last")).run, env, ~mine)
        opening = 0 if opponent == RANDOM else OPENING
        agent = Mixed(trained(run, env, mine), other, mine, chance(env, SEED + 1), opening)
        wanted = -(-games // copies)
        stepper, sink = Stepper(env, seeds()), Games(wanted)
        stepper.reset(allocate(space_specs(env.observation_space, "observation"), (env.num_envs,)))
        with torch.inference_mode():
            while len(sink.episodes) < wanted * copies:
                stepper.step(agent, sink)
        env.close()
    points = [difference(episode, env.agents, int(seats[episode.env_index])) for episode in sink.episodes]
    return {
        "games/wins": float(np.mean([each > 0 for each in points])),
        "games/unbeaten": float(np.mean([each >= 0 for each in points])),
        "eval/episodes": float(len(points)),
    }


def seeds() -> EpisodeSeeds:
    return EpisodeSeeds(SEED, Purpose.EVAL_EPISODES)


def chance(env: VectorEnv, seed: int = SEED) -> Agent:
    """An agent that acts at random."""
    everybody = RandomPolicy(PluginConfig(name="random"))
    everybody.setup(env.observation_space, env.action_space)
    rngs = [np.random.default_rng([seed, row]) for row in range(env.num_envs)]
    return RuleAgent(everybody, rngs, env.action_space)


def trained(run: Run, env: VectorEnv, rows: np.ndarray) -> Agent:
    """The agent of a run, with the search that it has; it looks ahead in these rows only."""
    network, planning = NetworkAgent(run.policy.eval(), None), run.planning("evaluation")
    if planning is None:
        return network
    return Planning(Partly(planning.planner, rows), planning.builder).agent(network, env, seeds())


def against_anybody(run_dir: Path, overrides: dict[str, str] | None = None) -> dict[str, float]:
    """Return the shares of games that are won, and not lost, whatever the other one plays, and the number of games."""
    results: list[float] = []
    with RunContext.open(run_dir, "last", overrides) as context:
        run = context.run
        planning = run.planning("evaluation")
        if planning is None:
            raise SystemExit("this run does not look ahead: play it against another one")
        simulators = planning.simulators(SEED)
        for seat in range(len(simulators.agents)):
            first = simulators.episode(seat)
            first.begin(SEED)
            reached = [(first, 0.0)]
            while reached:
                reached = one_move(planning.planner, reached, seat)
                results += [total for simulator, total in reached if simulator.over]
                reached = [each for each in reached if not each[0].over]
        simulators.close()
    wins, unbeaten = ([total > least for total in results] for least in (0.0, -1e-6))
    return {
        "games/wins": float(np.mean(wins)),
        "games/unbeaten": float(np.mean(unbeaten)),
        "eval/episodes": float(len(results)),
    }


def one_move(planner: Planner, reached: list[tuple[Simulator, float]], seat: int) -> list[tuple[Simulator, float]]:
    """What follows positions and the return of `seat` in them: its own action, or every one that is allowed."""
    mine = [place for place, (simulator, _) in enumerate(reached) if simulator.acting[seat]]
    decisions = [Decision(place, reached[place][0], seat, np.random.default_rng(SEED)) for place in mine]
    chosen: dict[int, int] = {}
    if mine:
        with torch.inference_mode():
            actions = planner.choose(decisions, {"action": np.zeros(len(mine), np.int64)})["action"]
        chosen = dict(zip(mine, actions.tolist(), strict=True))
    following = []
    for place, (simulator, total) in enumerate(reached):
        allowed = np.flatnonzero(simulator.obs["action_mask"][simulator.acting][0])
        for action in [chosen[place]] if place in chosen else allowed.tolist():
            twin = simulator.copy()
            reward = twin.step({"action": np.full(twin.rows, action)}).reward[seat]
            following.append((twin, total + float(reward)))
    return following


def difference(episode: Any, agents: Sequence[str], seat: int) -> float:
    """Return the return of the agent at `seat` minus the best one of the others."""
    returns = [episode.metrics.get(f"actor/{name}/return_mean", 0.0) for name in agents]
    mine = returns.pop(seat)
    return float(mine - max(returns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--against", default=RANDOM, help="random, anybody, or the run directory of another policy")
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--set", action="append", default=[], help="a setting of RUN_DIR, such as of its search")
    options = parser.parse_args()
    overrides = dict(setting.split("=", 1) for setting in options.set)
    if options.against == ANYBODY:
        found = against_anybody(options.run_dir, overrides)
    else:
        found = against(options.run_dir, options.against, options.games, overrides)
    for name, value in found.items():
        print(f"{name}  {value:g}")


if __name__ == "__main__":
    main()
