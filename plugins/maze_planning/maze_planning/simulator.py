"""Simulators: environments in the middle of an episode that can be copied, so that a planner can try actions out."""

from __future__ import annotations

import copy
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from maze_actors.agent_rows import AgentRowCodec
from maze_actors.agents import MultiAgentEnv, Round
from maze_actors.wrapped import lasting_parts

from maze_core import ConfigError, take_rows
from maze_core.base.tree import copy_tree
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.events import events_of
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.wrappers import remembering, says_so
from maze_core.plugins.closing import release, releasing
from maze_planning.watched import WatchedAgents, WatchedEnv

if TYPE_CHECKING:
    from maze_core import EnvBuilder, Tree


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step of a simulator brought. R rows: one for each agent; a single one in environments with one agent."""

    obs: Tree
    """Leaves [R, …] in storage dtype, as policies see them: of an agent that has ended its last observation, of one
    that waits the last one it acted on."""
    reward: np.ndarray
    """[R] float32, after the wrappers, as in training."""
    terminated: np.ndarray
    """[R] bool"""
    truncated: np.ndarray
    """[R] bool; never set together with `terminated`"""
    acting: np.ndarray
    """[R] bool, the agents that act next: whose turn it is. None does where the episode is over."""


class Simulator(ABC):
    """One environment in the middle of an episode, with R rows as for `Outcome`.

    A planner copies the simulator that it is given, and steps the copies:

        twin = simulator.copy()
        outcome = twin.step({"action": np.array([1])})
    """

    def __init__(self, source: Simulators, env: Any, index: int) -> None:
        self._source, self._env = source, env
        self.index = index
        """The number of the environment."""
        self.rows = max(1, len(source.agents))
        """R"""
        self.obs: Tree = {}
        """What the agents see, leaves [R, …], as in `Outcome.obs`. Not to be changed."""
        self.acting = np.zeros(self.rows, np.bool_)
        """[R] bool, the agents that act next."""
        self.seed = 0
        """The seed of the episode."""
        self.taken: list[Any] = []
        """The actions since the episode began, as the environment receives them; of copies only where they are made by
        replay."""
        self.is_copy = False
        """False: it is the episode itself, which only the environment's own steps move on."""

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents, one for each row; empty for environments with one agent."""
        return self._source.agents

    @property
    def over(self) -> bool:
        """True where the episode is over."""
        return not self.acting.any()

    @property
    def turn(self) -> int:
        """The row of the agent that acts next, for planners that know of turns; -1: the episode is over.

        Raises:
            ConfigError: several act at the same time.
        """
        acting = np.flatnonzero(self.acting)
        if len(acting) > 1:
            names = " and ".join(self.agents[row] for row in acting[:3])
            problem = f"planning needs agents that act in turns, and {names} act at the same time"
            raise ConfigError(problem, "env", "Next: maze train ppo, or qmix.")
        return int(acting[0]) if len(acting) else -1

    def copy(self) -> Simulator:
        """Return a copy of this moment, chance included: the same actions bring the same. Stepping it changes no other.

        Raises:
            Exception: whatever the environment raises.
        """
        return self._source.copied(self)

    def step(self, actions: Tree) -> Outcome:
        """Step a copy with actions as `Choice.actions` has them: leaves [R, …]; those of agents that wait are ignored.

        Raises:
            RuntimeError: this is no copy, or the episode is over.
            Exception: whatever the environment raises.
        """
        if not self.is_copy:
            raise RuntimeError("this simulator is the episode that is played: step a copy of it, simulator.copy()")
        return self.follow(actions)

    def follow(self, actions: Tree) -> Outcome:
        """Move the episode itself on, with the actions that were taken. Not for planners."""
        if self.over:
            raise RuntimeError("the episode is over: Simulator.over says when")
        native = self._native(actions)
        if not self.is_copy or self._source.by_replay:
            self.taken.append(native)
        return self._advance(native)

    def repeat(self, seed: int, taken: Sequence[Any]) -> None:
        """Begin an episode and repeat its actions, as the environment receives them. Not for planners."""
        self.begin(seed)
        for native in taken:
            self.taken.append(native)
            self._advance(copy.deepcopy(native))

    def begin(self, seed: int) -> None:
        """Begin an episode. Not for planners."""
        self.seed, self.taken = seed, []
        self._reset(seed)
        for events in events_of(self._env):  # nobody takes them here
            events.clear()

    def twin(self, env: Any) -> Self:
        """Return a simulator of another environment that stands where this one does. Not for planners."""
        twin = copy.copy(self)
        twin._env, twin.taken, twin.is_copy = env, [], True
        return twin

    @property
    def env(self) -> Any:
        """The environment below. Not for planners: agents do not see it."""
        return self._env

    @abstractmethod
    def _reset(self, seed: int) -> None: ...

    @abstractmethod
    def _native(self, actions: Tree) -> Any: ...

    @abstractmethod
    def _advance(self, native: Any) -> Outcome: ...


class _OneAgent(Simulator):
    """The simulator of an environment with one agent."""

    def stand(self, observation: Any) -> None:
        """Stand at an observation that the environment has returned."""
        self.obs, self.acting = self._source.observations.tree(observation), np.ones(1, np.bool_)

    def _reset(self, seed: int) -> None:
        self.stand(self._env.reset(seed=seed)[0])

    def _native(self, actions: Tree) -> Any:
        return self._source.actions.rows(actions)[0]

    def _advance(self, native: Any) -> Outcome:
        observation, reward, terminated, truncated, _ = self._env.step(native)
        self.stand(observation)
        if terminated or truncated:
            self.acting = np.zeros(1, np.bool_)
        ends = np.array([terminated], np.bool_), np.array([truncated and not terminated], np.bool_)
        return Outcome(self.obs, np.array([reward], np.float32), *ends, self.acting)


class _SeveralAgents(Simulator):
    """The simulator of an environment with several agents; its rows are those of `AgentsVectorEnv`."""

    def __init__(self, source: Simulators, env: Any, index: int) -> None:
        super().__init__(source, env, index)
        self.waited = np.ones(self.rows, np.int64)
        """[R] Rounds since each agent's last action."""
        self._present = set(source.agents)
        """The agents that are in the episode."""

    def stand(self, outcome: Round, before: Tree | None = None, waited: np.ndarray | None = None) -> None:
        """Stand where a round says who acts next, with the rows of others as `before`; None: blank."""
        agent_rows, names = self._source.agent_rows, self.agents
        self.obs = copy_tree(before) if before else allocate(self._source.specs, (self.rows,))
        self.waited = np.ones(self.rows, np.int64) if waited is None else waited
        if not before:
            for row, name in enumerate(names):
                agent_rows.clear(self.obs, row, name)
        self.acting = np.zeros(self.rows, np.bool_)
        for name, observation in {**outcome.truncated, **outcome.terminated, **outcome.acting}.items():
            row = names.index(name)
            self.acting[row] = name in outcome.acting
            agent_rows.write(self.obs, row, name, observation)
            agent_rows.write_around(self.obs, row, outcome.critic, int(self.waited[row]))

    def _reset(self, seed: int) -> None:
        outcome = self._env.reset(seed)
        self._present = set(outcome.acting)
        self.stand(outcome)

    def _native(self, actions: Tree) -> Any:
        own, chosen = self._source.agent_rows.own, self._source.actions.rows(actions)
        return {name: own(name, chosen[row]) for row, name in enumerate(self.agents) if self.acting[row]}

    def _advance(self, native: Any) -> Outcome:
        names, waited = self.agents, np.where(self.acting, 1, self.waited + 1)
        outcome = self._env.step(native)
        here = self._present
        terminated, truncated = (
            np.array([name in here and name in ended for name in names], np.bool_)
            for ended in (outcome.terminated, outcome.truncated)
        )
        reward = np.array([outcome.rewards.get(name, 0) for name in names], np.float32)
        self.stand(outcome, self.obs, waited)
        self._present = (here - outcome.terminated.keys() - outcome.truncated.keys()) | outcome.acting.keys()
        return Outcome(self.obs, reward, terminated, truncated & ~terminated, self.acting)


class Simulators:
    """Makes simulators of the environments that a builder builds. Close it after use.

    They are copied by Python's own protocol, `copy.deepcopy(env)`, which an environment may define by `__deepcopy__`;
    or by replay: a fresh environment is reset with the episode's seed and repeats its actions. The latter takes the
    time of the whole episode so far, and works wherever an episode depends on its seed and its actions only.

    Args:
        builder: builds the environments, in their single form.
        by_replay: copy by replay.

    Raises:
        ConfigError: the environment cannot be built, or a wrapper remembers more than an episode.
    """

    def __init__(self, builder: EnvBuilder, *, by_replay: bool = False) -> None:
        self._builder, self.by_replay = builder, by_replay
        self._spare: dict[int, list[Any]] = {}
        self._built: list[Any] = []
        first = self._build(0)
        self._spare[0] = [first]
        self.agents: tuple[str, ...] = tuple(first.agents) if builder.several_agents else ()
        if self.agents:
            self.agent_rows = AgentRowCodec(first, agent_ids=builder.agent_ids)
            self.observation_space, self.action_space = self.agent_rows.observation_space, self.agent_rows.action_space
        else:
            self.observation_space, self.action_space = first.observation_space, first.action_space
            self.observations = ObservationCodec(self.observation_space)
        self.specs = space_specs(self.observation_space, "observation")
        self.actions = ActionCodec(self.action_space)

    def _build(self, index: int) -> Any:
        env = _single(self._builder, index)
        if not self._built and _remembers(env):
            release(env)
            raise self._lasting(index)
        self._built.append(env)
        return env

    def _lasting(self, index: int) -> ConfigError:
        """Return the error about the innermost wrapper that remembers more than an episode."""
        builder, name, place = self._builder, self._builder.env.name, "env"
        for number, wrapper in enumerate(builder.wrappers):
            with releasing(_single(replace(builder, wrappers=builder.wrappers[: number + 1]), index)) as env:
                if _remembers(env):
                    name, place = wrapper.name, f"wrappers.{number}"
                    break
        problem = f"{name} remembers more than an episode, so nobody can look ahead through it"
        return ConfigError(problem, place, "Leave it out, or the planner.")

    def episode(self, index: int) -> Simulator:
        """Return a simulator of environment `index`, of which no episode has begun."""
        spare = self._spare.get(index)
        return self._of(spare.pop() if spare else self._build(index), index)

    def around(self, env: Any, observation: Any) -> Simulator:
        """Return a simulator of environment 0 as somebody else steps it, who has just seen an observation.

        It is a `WatchedEnv` or `WatchedAgents`; with one agent and copies that are not made by replay, any.
        """
        watched = isinstance(env, WatchedEnv | WatchedAgents)
        simulator = self._of(env.env if watched else env, 0)
        if watched:
            simulator.seed, simulator.taken = env.seed or 0, list(env.taken)
        if isinstance(simulator, _SeveralAgents):
            simulator.stand(Round(env.seen, critic=env.round.critic))
            simulator.stand(env.round, simulator.obs)
        else:
            simulator.stand(observation)
        return simulator

    def _of(self, env: Any, index: int) -> _OneAgent | _SeveralAgents:
        return _SeveralAgents(self, env, index) if self.agents else _OneAgent(self, env, index)

    def copied(self, simulator: Simulator) -> Simulator:
        """Return a copy of a simulator; errors as for `Simulator.copy`."""
        if not self.by_replay:
            return simulator.twin(copy.deepcopy(simulator.env))
        index = simulator.index
        spare = self._spare.setdefault(index, [])
        env = spare.pop() if spare else self._build(index)
        twin = simulator.twin(env)
        weakref.finalize(twin, spare.append, env)
        twin.repeat(simulator.seed, simulator.taken)
        return twin

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        built, self._built, self._spare = self._built, [], {}
        release(*built)


def same_outcomes(first: Outcome, second: Outcome) -> bool:
    """Return True where two steps brought the same to those who act or have ended, bit by bit."""
    flags = ("reward", "terminated", "truncated", "acting")
    if not all(np.array_equal(getattr(first, name), getattr(second, name)) for name in flags):
        return False
    rows = first.acting | first.terminated | first.truncated
    return same_rows(first.obs, second.obs, rows) is None


def same_rows(first: Tree, second: Tree, rows: np.ndarray) -> str | None:
    """Return the first leaf in which some rows of two trees differ; None: they are equal."""
    ours, theirs = take_rows(first, rows), take_rows(second, rows)
    return next((key for key, leaf in ours.items() if not np.array_equal(leaf, theirs[key], equal_nan=True)), None)


def _single(builder: EnvBuilder, index: int) -> Any:
    """Return an environment in its single form, with one agent or several."""
    return builder.agents_env(index) if builder.several_agents else builder(index)


def _remembers(env: Any) -> bool:
    """Return True where a wrapper remembers more than an episode."""
    if isinstance(env, MultiAgentEnv):
        return any(map(says_so, lasting_parts(env)))
    return remembering(env) is not None
