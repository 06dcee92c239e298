"""The agent that acts with a planner: it follows each episode in an environment of its own, which can be copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from maze_core import ConfigError, Purpose, RunError, flatten_space, generator, take_rows, to_arrays, to_tensors, varies
from maze_core.base.errors import say_where
from maze_core.base.saved_state import Each, OrLeftOut, check_state, form_of
from maze_core.base.seeding import load_random_states, random_states
from maze_core.base.tree import copy_tree, put_rows
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.envs.vector import copies_of
from maze_planning.copy_check import PLAY_ALONE, copies_by_replay
from maze_planning.planner import Decision
from maze_planning.simulator import Simulators, same_rows
from maze_planning.watched import WatchedAgents, WatchedEnv

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import EnvBuilder, EpisodeSeeds, NetworkAgent, Tree, VectorEnv
    from maze_planning.planner import Planner


@dataclass
class Planning:
    """What is needed to look ahead in the environments of a builder; it makes the agents that do."""

    planner: Planner
    builder: EnvBuilder
    _by_replay: list[bool] = field(default_factory=list)
    """How environments are copied, once it is known."""

    def agent(
        self, network: NetworkAgent, env: VectorEnv, seeds: EpisodeSeeds, *, learns: bool = False
    ) -> PlanningAgent:
        """Return an agent that looks ahead in these environments, whose episodes have these seeds. Close it after use.

        `learns`: its `Choice.samples` are needed, in the units of the policy's distribution.

        Raises:
            ConfigError: the environments cannot be copied.
        """
        return PlanningAgent(network, self.planner, self.simulators(seeds.seed), seeds, copies_of(env), learns=learns)

    def simulators(self, seed: int) -> Simulators:
        """Return what copies the environments; how is tried out once, in an episode that the seed decides.

        Raises:
            ConfigError: they cannot be copied.
        """
        if not self._by_replay:
            self._by_replay.append(copies_by_replay(self.builder, seed % 2**31))
        return Simulators(self.builder, by_replay=self._by_replay[0])


class PlanningBeside:
    """Looks ahead in an environment that somebody else steps, outside of a run's own environments.

    Args:
        planning: what looks ahead.
        seed: decides the planner's random numbers.
        env: the environment of `RunContext.make_env`.

    Raises:
        ConfigError: such environments cannot be copied, or `env` is another one.
    """

    def __init__(self, planning: Planning, seed: int, env: Any) -> None:
        self._env, self._planner = env, planning.planner
        self._simulators = simulators = planning.simulators(seed)
        self._check(env)
        self._plans = PlannedActions(planning.planner, simulators.action_space)
        self._rngs = [
            generator(seed, Purpose.PLANNING, agent_row) for agent_row in range(max(1, len(simulators.agents)))
        ]

    def begin(self) -> None:
        """Begin a new episode."""
        for agent_row in range(len(self._rngs)):
            self._planner.begin(agent_row)

    def choose(self, observation: Any, proposed: Tree, agent: str | None = None) -> Tree:
        """Return the action for the environment's current observation, leaves [1, …]; `agent`: whose it is.

        Raises:
            ConfigError: it is not this agent's turn, or nobody knows the seed of an episode that has to be replayed.
        """
        if self._simulators.by_replay and self._env.seed is None:
            raise ConfigError(
                "copies of this environment repeat its episode, and its seed is not known",
                "env",
                "Next: env.reset(seed=…)",
            )
        simulator = self._simulators.around(self._env, observation)
        agent_row = 0 if agent is None else self._simulators.agents.index(agent)
        if not simulator.acting[agent_row]:
            raise ConfigError(f"{agent!r} does not act next in the environment that was passed", "env")
        return self._plans([Decision(agent_row, simulator, agent_row, self._rngs[agent_row])], proposed)

    def close(self) -> None:
        """Close the environments that copies were made of; safe to call twice."""
        self._simulators.close()

    def _check(self, env: Any) -> None:
        """Raise ConfigError for an environment that cannot be copied, or has other spaces."""
        wanted = WatchedAgents if self._simulators.agents else WatchedEnv
        if isinstance(env, wanted):
            return
        if self._simulators.agents or self._simulators.by_replay:
            raise ConfigError(
                f"must be what context.make_env() returns, whose episode can be replayed, got {type(env).__name__}",
                "env",
                "Next: env = context.make_env()",
            )
        for role in ("observation_space", "action_space"):
            mine, its = getattr(self._simulators, role), getattr(env, role, None)
            if mine != its:
                hint = "Next: env = context.make_env()"
                raise ConfigError(f"has the {role} {its!s:.200}, and the run {mine!s:.200}", "env", hint)


class PlanningAgent(Agent):
    """Acts as a planner chooses, in environments that others step, in this process or elsewhere.

    Each environment has a twin here, which is built and seeded alike and takes the same actions; the planner copies the
    twin.

    Args:
        network: acts with the policy, and so proposes actions.
        planner: chooses them.
        simulators: makes the twins; closed with the agent.
        seeds: the seeds of the episodes.
        copies: number of environments.
        learns: as for `Planning.agent`.
    """

    def __init__(
        self,
        network: NetworkAgent,
        planner: Planner,
        simulators: Simulators,
        seeds: EpisodeSeeds,
        copies: int,
        *,
        learns: bool = False,
    ) -> None:
        self.network, self.planner, self.hears = network, planner, network.hears
        self._simulators, self._seeds = simulators, seeds
        self._episodes = [simulators.episode(number) for number in range(copies)]
        self._agent_rows = self._episodes[0].rows
        self._numbers = [0] * copies
        self._rngs: list[np.random.Generator] = [np.random.default_rng(0)] * (copies * self._agent_rows)
        self._started = False
        self._taken: Tree | None = None
        """The actions that the environments have taken since, leaves [N, …]."""
        self._plans = PlannedActions(planner, simulators.action_space)
        boxes = any(isinstance(leaf, Box) for leaf in flatten_space(simulators.action_space, "action").values())
        self._converts = learns and boxes

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows."""
        self.network.begin(rows)
        for row in rows:
            self.planner.begin(row)

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:
        """Forget the last observation of these rows."""
        self.network.wait(rows)

    def refresh(self) -> None:
        """Look at the network anew."""
        self.network.refresh()

    def expect(self, steps: int) -> None:
        """Prepare for so many steps."""
        self.network.expect(steps)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row.

        Raises:
            RunError: an environment and its twin show different observations; or the planner's result is no action.
        """
        self.see(obs)
        choice = self.network.act(obs)
        decisions = [
            Decision(row, episode, agent_row, self._rngs[row])
            for c, episode in enumerate(self._episodes)
            for agent_row, row in enumerate(range(c * self._agent_rows, (c + 1) * self._agent_rows))
            if episode.acting[agent_row]
        ]
        actions, rows = copy_tree(choice.actions), [each.row for each in decisions]
        put_rows(actions, rows, self._plans(decisions, take_rows(actions, rows)))
        self.took(actions)
        return Choice(self._samples(obs, actions) if self._converts else actions, actions)

    def hear(self, actions: Tree, rewards: np.ndarray) -> None:
        """Let the network take what came of the last choice."""
        self.network.hear(actions, rewards)

    def see(self, obs: Tree) -> None:
        """Follow the environments to the observations that they show now, leaves [N, …].

        Raises:
            RunError: an environment and its twin differ.
        """
        self._catch_up()
        for c, episode in enumerate(self._episodes):
            its = take_rows(obs, slice(c * self._agent_rows, (c + 1) * self._agent_rows))
            if (leaf := same_rows(episode.obs, its, episode.acting)) is not None:
                where = f"environment {c} (episode {self._numbers[c]}, step {len(episode.taken)})"
                raise RunError(
                    f"{where}: another environment with the same seed and actions shows another {leaf!r}, so the "
                    f"planner cannot look ahead\nAn episode must depend on its seed and its actions only. {PLAY_ALONE}"
                )

    def took(self, actions: Tree) -> None:
        """Note the actions, leaves [N, …], that the environments take next."""
        self._taken = actions

    def beside(self, agent: Agent) -> Agent:
        """Return an agent that acts in the same environments as another one does; this one follows its episodes."""
        return _Beside(agent, self)

    def _catch_up(self) -> None:
        if not self._started:
            for c in range(len(self._episodes)):
                self._begin(c, 0)
            self._started = True
        taken, self._taken = self._taken, None
        if taken is None:
            return
        for c, episode in enumerate(self._episodes):
            episode.follow(take_rows(taken, slice(c * self._agent_rows, (c + 1) * self._agent_rows)))
            if episode.over:
                self._begin(c, self._numbers[c] + 1)

    def _begin(self, c: int, number: int) -> None:
        seed = self._seeds(c, number)
        self._numbers[c] = number
        self._episodes[c].begin(seed)
        for agent_row in range(self._agent_rows):
            self._rngs[c * self._agent_rows + agent_row] = generator(seed, Purpose.PLANNING, agent_row)

    def _samples(self, obs: Tree, actions: Tree) -> Tree:
        """Return actions as samples of the policy's distribution, leaves [N, …]."""
        policy, memory = self.network.policy, self.network.memory
        device = next(policy.parameters()).device
        seen = to_tensors(obs, device)
        with torch.no_grad():
            distribution = policy.distribution(seen) if memory is None else policy.step(seen, memory.before)[0]
            return to_arrays(distribution.from_env_action(to_tensors(actions, device)))

    def state(self) -> dict[str, Any]:
        """Return what decides the next actions, besides where the environments stand."""
        if not self._started:
            return {**self.network.state(), **varies({}, {"planning": OrLeftOut({"rngs": Each({}), "planner": {}})})}
        self._catch_up()
        planning = {"rngs": random_states(self._rngs), "planner": self.planner.state()}
        return {**self.network.state(), "planning": planning}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, and the episodes of `state["env"]`, which a `Stepper`'s state has."""
        self.network.load_state(state)
        env = state.get("env")
        if env is None:
            return
        for c, length in enumerate(env["length"]):
            self._begin(c, int(env["episode"][c]))
            rows = slice(c * self._agent_rows, (c + 1) * self._agent_rows)
            steps = len(next(iter(env["actions"].values())))
            for t in range(steps - int(length), steps):
                self._episodes[c].follow({key: np.array(leaf[t, rows]) for key, leaf in env["actions"].items()})
        self._started, self._taken = True, None
        if (planning := state.get("planning")) is not None:  # else the run had no planner before
            check_state(planning, form_of(self.state)["planning"], "planning")
            load_random_states(self._rngs, planning["rngs"])
            self.planner.load_state(planning["planner"])

    def close(self) -> None:
        """Close the twins; safe to call twice."""
        self._simulators.close()


class _Beside(Agent):
    """Acts in environments whose episodes a planning agent follows."""

    def __init__(self, agent: Agent, planning: PlanningAgent) -> None:
        self._agent, self._planning, self.hears = agent, planning, agent.hears

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows."""
        self._agent.begin(rows)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row, as the agent does."""
        self._planning.see(obs)
        choice = self._agent.act(obs)
        self._planning.took(copy_tree(choice.actions))
        return choice

    def hear(self, actions: Tree, rewards: np.ndarray) -> None:
        """Take what came of the last choice."""
        self._agent.hear(actions, rewards)


class PlannedActions:
    """Asks a planner, and refuses results that are no actions.

    Args:
        planner: chooses.
        action_space: of a single environment.
    """

    def __init__(self, planner: Planner, action_space: Space[Any]) -> None:
        self._planner, self._leaves = planner, flatten_space(action_space, "action")

    def __call__(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        """Return the actions that the planner chooses, leaves [K, …].

        Raises:
            RunError: the result is of another structure or shape, or a value is not in the action space.
        """
        if not decisions:
            return {}
        name = type(self._planner).__name__
        try:
            with torch.no_grad():
                chosen: Any = self._planner.choose(decisions, proposed)
        except Exception as error:
            say_where(error, f"in {name}.choose, which looks ahead")
            raise
        if not isinstance(chosen, dict) or chosen.keys() != proposed.keys():
            got = sorted(chosen) if isinstance(chosen, dict) else f"a {type(chosen).__name__}"
            raise RunError(f"{name}.choose returned {got}, but actions have the leaves {sorted(proposed)}")
        return {key: self._checked(name, key, chosen[key], leaf) for key, leaf in proposed.items()}

    def _checked(self, name: str, key: str, value: Any, like: np.ndarray) -> np.ndarray:
        space, leaf = self._leaves[key], np.asarray(value)
        where = f"{name}.choose returned for {key!r}"
        if leaf.shape != like.shape or leaf.dtype.kind not in "biuf":
            raise RunError(f"{where} an array of shape {leaf.shape} and dtype {leaf.dtype} instead of {like.shape}")
        if not np.isfinite(leaf).all():
            raise RunError(f"{where} a value that is not finite: {leaf!r:.80}")
        if isinstance(space, Box):
            leaf = np.clip(leaf, space.low, space.high)
        elif leaf.dtype.kind == "f" or (leaf < 0).any() or (leaf >= _choices(space)).any():
            raise RunError(f"{where} no choice of {space}, counted from 0: {leaf!r:.80}")
        return leaf.astype(like.dtype)


def _choices(space: Space[Any]) -> Any:
    """Return the number of choices of a leaf that is no Box."""
    return space.n if isinstance(space, Discrete) else space.nvec if isinstance(space, MultiDiscrete) else 2
