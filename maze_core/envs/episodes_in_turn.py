"""N environments stepped in turn: how their episodes begin, what is attached to them, and how they are restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.base.errors import MazeError, RunError
from maze_core.base.tree import Tree, copy_tree, map_tree
from maze_core.envs.checks import MakeEnv, MisfitError, build_alike, failure, naming, place, replay, warn_not_replayed
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.events import check_separate, events_of, with_step_ends
from maze_core.envs.info_columns import InfoColumns
from maze_core.envs.masks import mask_leaves
from maze_core.envs.parameters import EpisodeParameters, of_parameters
from maze_core.envs.recorded_state import StepLog, check_count, same_rewards
from maze_core.envs.spaces import allocate
from maze_core.envs.vector import EndedEpisode
from maze_core.envs.wrappers import Memory, RewardSum, lasting_layers, recall, remembered, reward_meter
from maze_core.plugins.closing import release
from maze_core.plugins.other_interfaces import check_reset

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodePlan, EpisodeSeeds


class EpisodesInTurn:
    """The episodes of N environments that `SerialVectorEnv`, which says more, steps one after the other."""

    def __init__(self, make: MakeEnv, num_envs: int, first_index: int = 0) -> None:
        self.num_envs, self.first_index, self._make = num_envs, first_index, make
        self.envs = build_alike(make, range(first_index, first_index + num_envs))
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        mask_leaves(self.observation_space, self.action_space)  # refuses masks that would be ignored
        self._observations = ObservationCodec(self.observation_space)
        self._actions = ActionCodec(self.action_space)
        self._events = [events_of(env) for env in self.envs]
        check_separate(self._events)
        self._info = InfoColumns(getattr(make, "info_columns", ()), num_envs)
        self._steps = [self._step_of(i) for i in range(num_envs)]
        self._meters = [reward_meter(env) for env in self.envs]
        self._raw: list[RewardSum] = []
        """What each environment paid since its last step; empty where nobody asks."""
        self._lasting = [lasting_layers(env) for env in self.envs]
        self.episode_memory: list[Memory] = [remembered(each) for each in self._lasting]
        """What the wrappers of each environment remembered when its current episode began."""
        self._log = StepLog(self._actions.specs, num_envs)
        self._current = allocate(self._observations.specs, (num_envs,))
        self._floats = [self._current[key].reshape(-1) for key in self._observations.float_keys]
        self._ranged = self._observations.ranged
        self._last = allocate(self._observations.specs, (num_envs,))
        self._rewards = np.zeros(num_envs)
        self._number_types: set[type] = {float, int, np.float64}
        """Types of rewards that were found to be numbers."""
        self._valid, self._never = np.ones(num_envs, np.bool_), np.zeros(num_envs, np.bool_)
        self._parameters = EpisodeParameters(num_envs, make)
        self._seeds: EpisodeSeeds | None = None
        self._begin([0] * num_envs)

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""
        self._seeds = self._parameters.planned(seeds)
        self._begin([0] * self.num_envs)
        for i in range(self.num_envs):
            first = self._first_observation(i)
            self._observations.check(first)
            self._write(out, i, first)
        self._after_write(out)

    def keep_raw(self) -> None:
        """Return the rewards before all wrappers, too, from now on: `StepResult.raw`."""
        if not self._raw:
            self._raw = [meter.reader() for meter in self._meters if meter is not None]

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes: number, length, actions `[T, N, …]`, rewards `[T, N]`, current observation.

        `memory` is what the wrappers of each environment remembered when its episode began. T is the longest length;
        the steps of a shorter episode come last, after zeros.
        """
        lengths = [self._clock - start for start in self._started]
        return {
            "episode": np.array(self._episode, np.int64),
            "length": np.array(lengths, np.int64),
            **self._log.recorded(lengths),
            "observation": copy_tree(self._current),
            "memory": list(self.episode_memory),
            **self._parameters.state(),
        }

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Replay the unfinished episodes of `state`; write the current observations into `out`.

        Warns when the replay differs from the recorded rewards and observations: then the environment depends on more
        than its seed, its actions and the memory of its wrappers, and the run does not resume exactly.

        Raises:
            ConfigError: the state has another number of environments.
        """
        lengths = check_count(state, self.num_envs)
        self._seeds = self._parameters.planned(seeds)
        self._parameters.load(state)
        self._begin([int(k) for k in state["episode"]])
        self._log.load(state)
        self._clock = len(next(iter(state["actions"].values())))
        self.load_memory(state["memory"])
        with replay():
            exact = [self._replay(i, int(lengths[i]), state, out) for i in range(self.num_envs)]
            self._after_write(out)
        same = all(np.array_equal(out[key], value) for key, value in state["observation"].items())
        if not (same and all(exact)):
            warn_not_replayed()

    def memory(self) -> list[Memory]:
        """Return what each environment's wrappers remember across episodes."""
        return [remembered(each) for each in self._lasting]

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()`; environments without an entry keep their memory.

        Raises:
            ValueError: the memory belongs to other wrappers.
        """
        for layers, each in zip(self._lasting, memory, strict=False):
            recall(layers, each)

    def instruct(self, plan: EpisodePlan) -> None:
        """Let the episodes that begin from now on have these parameters."""
        self._parameters.instruct(plan)

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        envs, self.envs, self._steps = self.envs, [], []
        release(*envs)

    def _begin(self, episode: list[int]) -> None:
        self._episode = episode
        self._clock = 0
        """Steps taken; an episode's length is the difference to its `_started`, so nothing is counted per step."""
        self._started = [0] * self.num_envs
        self._returns = np.zeros(self.num_envs)
        self._info.begin()
        self._log.clear()

    def _first_observation(self, i: int) -> Any:
        if self._seeds is None:
            raise RunError("reset the environments before the first step")
        index = self.first_index + i
        try:  # as `naming`, without its cost
            seed = self._seeds(index, self._episode[i])
            if self._parameters.used:
                self._parameters.begin(i, index, self._episode[i])
                seed = self._parameters.give(i, self.envs, self._rebuild, seed)
            self.episode_memory[i] = remembered(self._lasting[i]) if self._lasting[i] else []
            result: Any = self.envs[i].reset(seed=seed)
            if not (type(result) is tuple and len(result) == 2 and type(result[1]) is dict):
                check_reset(result)
        except MazeError:
            raise
        except (Exception, SystemExit) as error:
            raise failure(place(index, self._episode[i], 0), error) from error
        observation = result[0]
        meter = self._meters[i]
        if meter is not None:
            meter.total = 0.0  # steps that a wrapper takes in its reset do not count
            if self._raw:
                self._raw[i].take()
        if self._events[i]:
            self._begin_events(i)
        return observation

    def _rebuild(self, i: int, arguments: Mapping[str, Any]) -> None:
        """Put another environment in the place of environment i, with what the wrappers remember."""
        old, memory = self.envs[i], remembered(self._lasting[i])
        self.envs[i] = new = of_parameters("rebuilt")(
            self._make, self.first_index + i, arguments, old, lambda make, k: make(k)
        )
        release(old)
        self._lasting[i], self._meters[i], self._events[i] = lasting_layers(new), reward_meter(new), events_of(new)
        recall(self._lasting[i], memory)
        meter = self._meters[i]
        if self._raw and meter is not None:
            self._raw[i] = meter.reader()
        self._steps[i] = self._step_of(i)

    def _step_of(self, i: int) -> Callable[[Any], Any]:
        """Return what steps environment i, and looks at what it reports."""
        return self._info.watched(i, with_step_ends(self.envs[i].step, self._events[i]))

    def _begin_events(self, i: int) -> None:
        """Clear the events, which a wrapper may have replaced together with its environment."""
        found = events_of(self.envs[i])
        if found != self._events[i]:
            self._events[i] = found
            self._steps[i] = self._step_of(i)
        for events in found:
            events.clear()

    def _write(self, out: Tree, i: int, observation: Any) -> None:
        """Write the current observation of environment i."""
        try:
            self._observations.write(out, i, observation)
        except MisfitError as exc:
            raise RunError(f"{self._place(i)} returned {exc}") from exc

    def _after_write(self, out: Tree) -> None:
        """Check the observations just written and remember them for `state`."""
        for key, array in self._current.items():
            array[...] = out[key]
        for flat in self._floats:
            if not isfinite(flat.dot(flat)):  # as in `all_finite`, without its calls
                self._check_values(out)
        if self._ranged:
            self._check_values(out)

    def _check_values(self, out: Tree) -> None:
        wrong = self._observations.wrong(out)
        if wrong:
            raise RunError(f"{self._place(wrong[0])} returned {wrong[1]}")

    def _replay(self, i: int, length: int, state: dict[str, Any], out: Tree) -> bool:
        """Repeat the last `length` steps of environment i; return False where rewards differ or the episode ends."""
        observation = self._first_observation(i)
        self._started[i] = self._clock - length
        actions: Tree = state["actions"]
        rows = self._actions.rows(map_tree(lambda array: array[len(array) - length :, i], actions))
        rewards: list[float] = []
        ended = False
        for number, action in enumerate(rows, 1):
            with naming(place(self.first_index + i, self._episode[i], number)):
                observation, reward, terminated, truncated, _ = self._steps[i](action)
            rewards.append(float(reward))
            self._returns[i] += rewards[-1]
            ended = bool(terminated or truncated)
            if ended:
                break
        if ended:
            self._episode[i] += 1
            self._started[i], self._returns[i] = self._clock, 0.0
            self._info.begin(i)
            observation = self._first_observation(i)
        self._write(out, i, observation)
        return not ended and same_rewards(state, i, rewards)

    def _place(self, i: int, ended: Sequence[EndedEpisode] = ()) -> str:
        """Return the name of environment i and its step; `ended`: the episodes that ended at this step."""
        episode, step = self._episode[i], self._clock - self._started[i]
        for end in (each for each in ended if each.index == i):
            episode, step = end.episode, end.length
        return place(self.first_index + i, episode, step)
