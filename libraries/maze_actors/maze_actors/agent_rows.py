"""What rows hold where several act: kinds of actors with equal spaces, and the row of an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from maze_actors.groups import members_of
from maze_core.base.errors import ConfigError
from maze_core.envs.actors import ACTOR, CRITIC, ELAPSED, TURN, ActorId
from maze_core.envs.checks import check_apart
from maze_core.envs.codecs import ObservationCodec
from maze_core.envs.masks import mask_leaves, masks_among
from maze_core.envs.spaces import ROLES, flatten_space, leaves
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from maze_actors.agents import MultiAgentEnv
    from maze_core.base.tree import Tree
    from maze_core.envs.checks import MisfitError


class ActorSpaces(NamedTuple):
    """What an actor sees and what it may do."""

    observation: Space[Any]
    action: Space[Any]


class Kinds:
    """The kinds of some actors, each named after the first actor that has its spaces.

    Args:
        actors: the name of each actor → its spaces, which Maze supports.
    """

    def __init__(self, actors: Mapping[str, ActorSpaces]) -> None:
        self.of: dict[str, str] = {}
        """The kind of each actor, in the order of the actors."""
        self.spaces: dict[str, ActorSpaces] = {}
        """The spaces of each kind, in the order of their first actors."""
        for name, declared in actors.items():
            self.of[name] = next((kind for kind, known in self.spaces.items() if known == declared), name)
            self.spaces.setdefault(self.of[name], declared)

    def joint_spaces(self) -> tuple[spaces.Dict, spaces.Dict]:
        """Return spaces of observations and actions with a part for each kind.

        The part `turn` of observations says whose turn it is, and how much has elapsed since the last one.
        """
        turn = spaces.Dict({"actor": ActorId(self.of), "elapsed": spaces.Box(0, np.inf, (), np.float32)})
        observations = {kind: each.observation for kind, each in self.spaces.items()}
        actions = {kind: each.action for kind, each in self.spaces.items()}
        return spaces.Dict({TURN: turn, **observations}), spaces.Dict(actions)


def waiting_observation(declared: ActorSpaces) -> Any:
    """Return what is shown for an actor that waits: zeros, or the nearest value of the space, and ones in masks."""
    observed = flatten_space(declared.observation, "observation")
    return _blank(declared.observation, (), masks_among(observed, declared.action))


def _blank(space: Space[Any], path: tuple[str, ...], masks: set[str]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _blank(child, (*path, key), masks) for key, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_blank(child, (*path, str(index)), masks) for index, child in enumerate(space.spaces))
    if isinstance(space, spaces.Discrete):
        return space.start
    if isinstance(space, spaces.MultiDiscrete):
        return np.array(space.start, space.dtype)
    value: np.ndarray = np.full(space.shape or (), 1 if "/".join(path) in masks else 0, np.dtype(space.dtype))
    return np.clip(value, space.low, space.high) if isinstance(space, spaces.Box) else value


class AgentRowCodec:
    """Reads and writes the rows of the agents of an environment.

    Agents with equal spaces have plain rows: the observation and the action of the agent. Otherwise each agent is an
    actor: a row has a part for each kind, of which only that of the row's agent counts, and `turn`, which says who acts
    and what has elapsed, as in environments whose actors take turns.

    What critics alone see of the whole environment is in the row of every agent, as it was with the row's observation.

    Args:
        env: one of the copies.
        agent_ids: make actors of agents with equal spaces too, so that networks can be chosen by agent.

    Raises:
        ConfigError: there is no agent, one has no spaces, a space or a name is not supported, or an agent observes
            `critic` itself where the environment has a `critic_space`.
    """

    def __init__(self, env: MultiAgentEnv, *, agent_ids: bool = False) -> None:
        kinds = Kinds(_declared(env))
        self._kind_of = kinds.of
        self.counts_rounds = env.elapsed == "round"
        """True where the discount of a row counts the rounds of the environment, not the agent's own turns."""
        self.has_agent_ids = agent_ids or self.counts_rounds or len(kinds.spaces) > 1
        """True where each agent is an actor."""
        self.observation_space, self.action_space = next(iter(kinds.spaces.values()))
        if self.has_agent_ids:
            self._numbers = {agent: number for number, agent in enumerate(kinds.of)}
            self.observation_space, self.action_space = kinds.joint_spaces()
        mask_leaves(self.observation_space, self.action_space)  # refuses masks that would be ignored
        self._critic: ObservationCodec | None = None
        if env.critic_space is not None:
            alone = spaces.Dict({CRITIC: env.critic_space})
            self._critic = ObservationCodec(alone)
            self.observation_space = _joined(self.observation_space, alone)
        self._codecs = {kind: ObservationCodec(self._placed(kind, s.observation)) for kind, s in kinds.spaces.items()}
        self._waiting = {kind: self._placed(kind, waiting_observation(s)) for kind, s in kinds.spaces.items()}

    def like(self, other: AgentRowCodec) -> bool:
        """Return True where the rows of another copy have the same spaces."""
        mine, its = ((each.observation_space, each.action_space) for each in (self, other))
        return mine == its

    def clear(self, tree: Tree, row: int, agent: str) -> None:
        """Write what an agent's row shows before its first observation."""
        for kind, waiting in self._waiting.items():
            self._codecs[kind].write(tree, row, waiting)
        if self.has_agent_ids:
            tree[ACTOR][row], tree[ELAPSED][row] = self._numbers[agent], 1

    def write(self, tree: Tree, row: int, agent: str, observation: Any) -> None:
        """Write an agent's observation; errors as for `ObservationCodec.write`."""
        kind = self._kind_of[agent]
        self._codecs[kind].write(tree, row, self._placed(kind, observation))

    def write_around(self, tree: Tree, row: int, critic: Any, rounds: int) -> None:
        """Write what critics see at an observation, and the `rounds` rounds since the agent's last action."""
        if self._critic is not None:
            self._critic.write(tree, row, {CRITIC: critic})
        if self.counts_rounds:
            tree[ELAPSED][row] = rounds

    def check(self, agent: str, observation: Any) -> None:
        """Raise ConfigError for an observation that is not in the agent's space."""
        kind = self._kind_of[agent]
        self._codecs[kind].check(self._placed(kind, observation))

    def problem(self, agent: str, observation: Any) -> tuple[str, str] | None:
        """Return the leaf in which an observation is not in the agent's space, and what is wrong; None: it is."""
        kind = self._kind_of[agent]
        found = self._codecs[kind].problem(self._placed(kind, observation))
        return None if found is None else (self.own_key(agent, found[0]), found[1])

    def float_keys(self, agent: str) -> tuple[str, ...]:
        """Return the leaves of an agent's own observation, in its row, that can hold NaN or infinity."""
        return self._codecs[self._kind_of[agent]].float_keys

    def own_key(self, agent: str, key: str) -> str:
        """Return the key that a leaf of an agent's row has in the agent's own observation."""
        kind = self._kind_of[agent]
        return key if not self.has_agent_ids else "observation" if key == kind else key.removeprefix(f"{kind}/")

    def check_critic(self, critic: Any) -> None:
        """Raise ConfigError for what critics see, if it is not in its space."""
        if self._critic is not None:
            self._critic.check({CRITIC: critic})

    def wrong(self, tree: Tree, row: int, agent: str) -> MisfitError | None:
        """Return the error of a value in a written row of an agent that cannot be used; None if all can."""
        for codec in (self._codecs[self._kind_of[agent]], self._critic):
            wrong = codec and codec.wrong({key: tree[key][row : row + 1] for key in codec.specs})
            if wrong:
                return wrong[1]
        return None

    def own(self, agent: str, action: Any) -> Any:
        """Return an agent's part of the action of its row."""
        return action[self._kind_of[agent]] if self.has_agent_ids else action

    def _placed(self, kind: str, part: Any) -> Any:
        """Return a kind's observation or its space as the part of a row's."""
        if not self.has_agent_ids:
            return part
        return spaces.Dict({kind: part}) if isinstance(part, Space) else {kind: part}


def _joined(observed: Space[Any], alone: spaces.Dict) -> spaces.Dict:
    """Return the space of rows that also hold what critics alone see."""
    own = members_of(observed)
    if CRITIC in own:
        raise ConfigError(f"the agents observe a key {CRITIC!r}, which the environment's critic_space needs", "env")
    return spaces.Dict({**own, **alone.spaces})


def _declared(env: MultiAgentEnv) -> dict[str, ActorSpaces]:
    """Return the spaces of all agents."""
    if not env.agents:
        raise ConfigError("the environment names no agents", "env")
    for role in ROLES:
        declared = getattr(env, f"{role}_spaces")
        for agent in env.agents:
            if agent not in declared:
                raise ConfigError(f"the agent {agent!r} has no {role} space", "env")
            leaves(declared[agent], role)  # unsupported spaces cannot always be compared
    return {agent: ActorSpaces(env.observation_spaces[agent], env.action_spaces[agent]) for agent in env.agents}


def built_alike(
    make: Callable[[int], MultiAgentEnv], indices: range, agent_ids: bool
) -> tuple[list[MultiAgentEnv], AgentRowCodec]:
    """Build the copies, and what their rows hold; when one fails, close those already built."""
    envs: list[MultiAgentEnv] = []
    rows: list[AgentRowCodec] = []
    try:
        for index in indices:
            envs.append(make(index))
            rows.append(AgentRowCodec(envs[-1], agent_ids=agent_ids))
            if list(envs[-1].agents) != list(envs[0].agents) or not rows[-1].like(rows[0]):
                raise ConfigError(f"environment {index} has other agents or spaces than environment 0", "env")
        check_apart(envs)
    except BaseException:
        release(*envs)
        raise
    return envs, rows[0]
