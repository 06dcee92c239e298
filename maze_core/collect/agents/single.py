"""A policy outside training: observations in, actions out, both as the environment has them.

What training refuses is not acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
import torch

from maze_core.base.errors import ConfigError
from maze_core.base.tree import concat_trees
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.envs.checks import UnlikeSpaceError, check_finite, fits_float32
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.masks import MaskCheck
from maze_core.models.memory import remembers

if TYPE_CHECKING:
    import gymnasium

    from maze_core.base.tree import Tree
    from maze_core.collect.agents.looking_ahead import PlanningBeside
    from maze_core.envs.masks import MaskCheck
    from maze_core.models.policy import Policy


def compute_action(
    policy: Policy,
    observation: Any,
    *,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check: bool = True,
) -> Any:
    """Return the policy's action for one observation, in the action space's own structure, units and dtype.

    `generator` decides a sampled action; None: torch's global one. `check` as of `SingleAgent`.

    Raises:
        ConfigError: the policy remembers, so a single observation does not decide; or the observation is refused.
    """
    _check_forgets(policy)
    return SingleAgent(policy, deterministic=deterministic, generator=generator, check=check).act(observation)


def compute_actions(
    policy: Policy,
    observations: Iterable[Any],
    *,
    deterministic: bool = True,
    generator: torch.Generator | None = None,
    check: bool = True,
) -> list[Any]:
    """Return the actions for many observations, computed at once: one for each, as `compute_action` returns it.

    `observations`: a list of them, or an array with the observations along its first axis.

    Raises:
        ConfigError: as for `compute_action`, or this is no list; the message has the number of a refused observation.
    """
    _check_forgets(policy)
    rows = _listed(observations, policy.observation_space)
    reader = _Reader(policy, check=check)
    trees = []
    for number, observation in enumerate(rows):
        try:
            trees.append(reader.tree(observation))
        except ConfigError as error:
            raise ConfigError(f"number {number}: {error.message}", "observations", error.hint) from error
    if not trees:
        return []
    noise = None if deterministic else SharedNoise(len(trees), generator or torch.default_generator)
    actions = NetworkAgent(policy, noise).act(concat_trees(trees)).actions
    return ActionCodec(policy.action_space).rows(actions)


def _check_forgets(policy: Policy) -> None:
    if remembers(policy):
        raise ConfigError(
            "a policy with memory needs the observations in order: one alone does not decide its action",
            hint="Next: agent = context.agent(), agent.reset() where an episode begins, agent.act(observation)",
        )


def _listed(observations: Any, space: gymnasium.Space[Any]) -> list[Any]:
    """Return a batch of observations as a list of them."""
    if isinstance(observations, Mapping | str) or not isinstance(observations, Iterable):
        got = type(observations).__name__
        raise ConfigError(f"must be a list of observations, got {got}", "observations", f"Each is one of {space}.")
    try:
        return list(observations)
    except TypeError as error:  # an array without a first axis
        raise ConfigError(f"must be a list of observations: {error}", "observations") from error


class SingleAgent:
    """A trained policy that acts in one environment, observation by observation: with memory or without.

        agent = context.agent()
        agent.reset()
        action = agent.act(observation)

    Args:
        policy: the policy.
        deterministic: most likely actions instead of samples.
        generator: decides sampled actions; None: torch's global one.
        check: refuse what training refuses: another structure, shape or dtype than the observation space has, values
            outside of its discrete leaves, NaN, infinity, masks without a choice. Without, only what cannot be stored
            in the observation space is refused.
        planning: looks ahead in the environment whose observations these are; None: the network acts alone.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        deterministic: bool = True,
        generator: torch.Generator | None = None,
        check: bool = True,
        planning: PlanningBeside | None = None,
    ) -> None:
        self._planning = planning
        self._reader, self._actions = _Reader(policy, check=check), ActionCodec(policy.action_space)
        self._agent = NetworkAgent(
            policy, None if deterministic else SharedNoise(1, generator or torch.default_generator)
        )
        self._taken: Tree = {}
        """The last action of the episode."""

    def reset(self) -> None:
        """Forget the last episode. Call it where an episode begins."""
        self._taken = {}
        self._agent.begin([0])
        if self._planning is not None:
            self._planning.begin()

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Where the block raises, remember nothing of what was seen in it. Planners are left as they are."""
        before, taken = self._agent.state(), self._taken
        try:
            yield
        except BaseException:
            self._agent.load_state(before)
            self._taken = taken
            raise

    def act(self, observation: Any, reward: float | None = None) -> Any:
        """Return the action for the next observation of the episode, both in the environment's own spaces.

        `reward`: what the last action was paid; only policies that hear ask for it, from the second step on.

        Raises:
            ConfigError: the observation is refused; the agent forgets nothing and does not remember this one. Or the
                policy needs the reward, and it is missing or not finite.
        """
        if self._agent.hears and self._taken and reward is None:
            raise ConfigError(
                "this policy decides by what its last action was paid, too, and was told no reward",
                hint="Next: agent.act(observation, reward), and agent.reset() where an episode begins",
            )
        if self._agent.hears and reward is not None and not fits_float32(reward):
            raise ConfigError(f"what the last action was paid must be a finite number, got {reward!r:.40}")
        tree = self._reader.tree(observation)
        if self._agent.hears and self._taken:
            self._agent.hear(self._taken, np.array([reward], np.float32))
        actions = self._agent.act(tree).actions
        if self._planning is not None:
            actions = self._planning.choose(observation, actions)
        self._taken = actions
        return self._actions.rows(actions)[0]


class _Reader:
    """Reads observations, and refuses those that training refuses, see `SingleAgent`."""

    def __init__(self, policy: Policy, *, check: bool) -> None:
        self._space = policy.observation_space
        self._masks = MaskCheck(policy.observation_space, policy.action_space) if check else None
        self._observations = ObservationCodec(policy.observation_space)

    def tree(self, observation: Any) -> Tree:
        """Return an observation with leaves [1, …].

        Raises:
            ConfigError: it is refused.
        """
        return self._unchecked(observation) if self._masks is None else self._checked(observation, self._masks)

    def _unchecked(self, observation: Any) -> Tree:
        try:
            return self._observations.tree(observation)
        except UnlikeSpaceError as error:
            wrong = wrong_argument(observation, self._space)
            raise wrong or refused(error.key, error.problem, checks=False) from error

    def _checked(self, observation: Any, masks: MaskCheck) -> Tree:
        problem = self._observations.problem(observation)
        if problem is None:
            with np.errstate(over="ignore"):  # a number beyond float32's range is refused as infinite
                tree = self._observations.tree(observation)
                problem = value_problem(tree, self._observations.float_keys, masks)
        if problem is not None:
            raise wrong_argument(observation, self._space) or refused(*problem)
        return tree


_RETURNED = {2: "env.reset()", 5: "env.step(action)"}
# Calls by the number of values that they return.


def value_problem(tree: Tree, floats: tuple[str, ...], masks: MaskCheck) -> tuple[str, str] | None:
    """Return the leaf of an observation, leaves [1, …], that training would refuse, and why; None: there is none.

    Args:
        tree: the observation.
        floats: the leaves that can hold NaN or infinity.
        masks: finds masks that leave no choice.
    """
    bad = check_finite(tree, floats)
    if bad is not None:
        row = np.asarray(tree[bad[0]][0])
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(row))[0])
        return bad[0], f"it holds {row[place]}" + (f" at {list(place)}" if place else "")
    if masks.leaves and (closed := masks.find(tree)) is not None:
        return closed.leaf, closed.problem
    return None


def wrong_argument(observation: Any, space: gymnasium.Space[Any]) -> ConfigError | None:
    """Return the error for an argument that is more than one observation; None where it is something else.

    It is what `reset` or `step` of an environment returns, or a batch.
    """
    pair = isinstance(observation, tuple) and len(observation) in _RETURNED and isinstance(observation[-1], dict)
    if pair and not isinstance(space, gymnasium.spaces.Tuple):
        returned = _RETURNED[len(observation)]
        return ConfigError(f"is all that {returned} returns", "observation", f"Next: pass the first: {returned}[0]")
    shape = np.shape(observation) if isinstance(observation, np.ndarray | list) else ()
    if isinstance(space, gymnasium.spaces.Box) and len(shape) == len(space.shape) + 1 and shape[1:] == space.shape:
        problem = f"is a batch of {shape[0]}, of shape {shape}; it must be one observation, of shape {space.shape}"
        return ConfigError(problem, "observation", "Next: context.compute_actions(observations)")
    return None


def refused(leaf: str, problem: str, agent: str | None = None, *, checks: bool = True) -> ConfigError:
    """Return the error for an observation that is not acted on; `checks`: where values are looked at, too."""
    whose = "" if agent is None else f" of {agent!r}"
    hint = "The policy needs an observation with the structure, shapes and dtypes of its observation space."
    if checks:
        hint = (
            "The policy needs finite values of its observation space, with a choice left by each mask. "
            "With check=False it acts without looking."
        )
    return ConfigError(f"the observation{whose} is refused at {leaf!r}: {problem}", None, hint)


class SeveralAgents(Protocol):
    """A trained policy that acts for the agents of an environment; each has its own memory, if the policy has one.

    agents = context.agents()
    agents.reset()
    action = agents.act("player_0", observation)
    """

    @property
    def names(self) -> list[str]:
        """The names of the agents."""

    def reset(self) -> None:
        """Forget the last episode. Call it where an episode begins."""

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """Where the block raises, remember nothing of what was seen in it. Planners are left as they are."""

    def act(self, name: str, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """Return an agent's action for the next observation at which it acts, both in its own spaces.

        Args:
            name: the agent.
            observation: as the environment has it: of PettingZoo, the one that `last()` or `step` returns.
            info: the agent's info, where it holds the action mask.

        Raises:
            ConfigError: there is no such agent, or the observation is refused.
        """
