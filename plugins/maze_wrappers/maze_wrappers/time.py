"""Time: limits and skipped steps."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from maze_actors.agents import LimitedAgents, MultiAgentEnv, Round, WrappedAgents, added
from pydantic import Field

from maze_core import Plugin, PluginConfig, RunError, hookimpl
from maze_core.base.metrics import as_number
from maze_core.envs.codecs import follow
from maze_core.envs.masks import masks_among
from maze_wrappers.leaves import Env, check_single_actor

_Path = tuple[Any, ...]


class TimeLimitConfig(PluginConfig):
    """The parameters of `time_limit`."""

    steps: int = Field(default=1000, ge=1)
    """Steps after which an episode is truncated."""


class TimeLimit(Plugin):
    """Truncate episodes after a number of steps (gymnasium's TimeLimit); a shorter limit of the environment stays."""

    Config = TimeLimitConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return gymnasium.wrappers.TimeLimit((yield), self.config.steps)

    def wrap_agents(self, env: MultiAgentEnv) -> MultiAgentEnv:
        """Truncate the episode of all agents after as many steps of the environment."""
        return LimitedAgents(env, self.config.steps)


class StepSkipConfig(PluginConfig):
    """The parameters of `step_skip`."""

    steps: int = Field(default=4, ge=1)
    """Environment steps per action. The run and the algorithm's `gamma` count them as one step."""
    add_up: tuple[str, ...] = ()
    """Numbers of the `info` that are added up as rewards are, such as the `cost` of a constraint. All other entries
    are those of the last step."""

    def changes_nothing(self) -> bool:
        """Return True for one environment step per action."""
        return self.steps == 1


class StepSkip(Plugin):
    """Take each action several times and add up the rewards; the observation is the last one.

    Where the action mask changes in between, the next action is chosen at once: the last one may be forbidden now.

    The algorithm sees one step: its rewards are added without discount, and `gamma` is applied once. So raise a `gamma`
    meant for single steps to the power of `steps`.
    """

    Config = StepSkipConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        check_single_actor(env, "step_skip", "an action is that of one turn", "Remove this wrapper.")
        return _Skipping(env, self.config)

    def wrap_agents(self, env: MultiAgentEnv) -> MultiAgentEnv:
        """Take the actions of all agents several times."""
        return RepeatedActions(env, self.config.steps, self.config.add_up)


class _Skipping(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, config: StepSkipConfig) -> None:
        super().__init__(env)
        self._config = config
        self._masks = MaskChanges(env.observation_space, env.action_space)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._masks.look(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        total, sums = 0.0, dict[str, float]()
        for _ in range(self._config.steps):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            _add_numbers(sums, info, self._config.add_up)
            if terminated or truncated or self._masks.look(observation):
                break
        return observation, total, terminated, truncated, {**info, **sums} if sums else info


class RepeatedActions(WrappedAgents):
    """Takes the actions of all several times, until an agent ends, others act or a mask changes; adds up the rewards.

    Args:
        env: what is wrapped.
        steps: how often.
        add_up: the numbers of each agent's info that are added up, too.
    """

    def __init__(self, env: MultiAgentEnv, steps: int, add_up: Sequence[str] = ()) -> None:
        super().__init__(env)
        self._steps, self._add_up = steps, add_up
        self._masks = {a: MaskChanges(env.observation_spaces[a], env.action_spaces[a]) for a in env.agents}

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        outcome = self.env.reset(seed)
        self._look(outcome)
        return outcome

    def _look(self, outcome: Round) -> bool:
        """Remember the masks of those that act; return True if one differs from that before."""
        changed = [self._masks[agent].look(observation) for agent, observation in outcome.acting.items()]
        return any(changed)

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Step several times."""
        rewards, raw = dict[str, float](), dict[str, float]()
        sums: dict[str, dict[str, float]] = {}
        for _ in range(self._steps):
            outcome = self.env.step(actions)
            rewards = added(rewards, outcome.rewards)
            raw = added(raw, outcome.raw or outcome.rewards)
            for agent, info in outcome.infos.items():
                if info and self._add_up:  # an agent may be told nothing
                    _add_numbers(sums.setdefault(agent, {}), info, self._add_up)
            changed = self._look(outcome)
            if changed or outcome.acting.keys() != actions.keys():
                break
        told = {agent: {**outcome.infos.get(agent, {}), **numbers} for agent, numbers in sums.items()}
        return replace(outcome, rewards=rewards, raw=raw, infos={**outcome.infos, **told})


def _add_numbers(sums: dict[str, float], info: Mapping[str, Any], names: Iterable[str]) -> None:
    """Add the numbers of an info to sums, by their names. Raise RunError if one is missing."""
    for name in names:
        value = info.get(name)
        try:
            number = None if getattr(value, "shape", ()) else as_number(value)
        except TypeError:
            number = None
        if number is None:
            raise RunError(
                f"the info of a step has no number {name!r} to add up, but {sorted(map(str, info))}\n"
                "Next: correct `add_up` of the wrapper step_skip."
            )
        sums[name] = sums.get(name, 0.0) + number


class MaskChanges:
    """Reads the action masks of observations, and tells whether they are those of the observation before.

    Args:
        observation_space: of an environment, or of an agent. It may have parts that Maze refuses.
        action_space: likewise.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        places = {"/".join(map(str, path)): path for path in _paths(observation_space)}
        self._places = [places[key] for key in sorted(masks_among(places, action_space))]
        self._last: list[Any] = []

    def look(self, observation: Any) -> bool:
        """Remember the masks of an observation; return True if they differ from those before."""
        before, self._last = self._last, [np.array(follow(observation, path)) for path in self._places]
        return not all(map(np.array_equal, before, self._last))


def _paths(space: Space[Any], path: _Path = ()) -> Iterator[_Path]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, child in children:
            yield from _paths(child, (*path, key))
    else:
        yield path
