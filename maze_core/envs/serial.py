"""N environments stepped in turn, in this process."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from maze_core.base.errors import MazeError, RunError
from maze_core.base.tree import Tree, map_tree
from maze_core.envs.checks import (
    MisfitError,
    all_finite,
    check_info,
    failure,
    first_bad_row,
    is_number,
    is_set,
    non_finite,
    not_a_number,
    place,
)
from maze_core.envs.episodes_in_turn import EpisodesInTurn
from maze_core.envs.events import take
from maze_core.envs.vector import EndedEpisode, StepResult
from maze_core.envs.wrappers import episode_metrics

_NONE_ENDED = np.zeros(0, np.int64)
_FALSE = np.False_
_CLOSELY, _OFTEN = 1000, 17
"""The dtype and shape of single arrays, and the types of rewards, are looked at in so many steps and then in one of so
many, a prime, since environments have rhythms. The first and the last observation of an episode always are."""


class SerialVectorEnv(EpisodesInTurn):
    """Steps environments one after the other and resets those whose episode has ended.

    Episode k of environment i begins with `reset(seed=seeds(i, k))`, so a run can be repeated, and an unfinished
    episode can be replayed from its actions. Environments are counted from `first_index`.

    Raises:
        ConfigError: a space is not supported, environments differ, or the first observation does not fit its space.
        RunError: an environment raised, or returned a reward or observation that is not finite; names it.
    """

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment once; write the next observations into `out`."""
        kind, key, dtype, shape, numbers = self._observations.plain
        target, write = out[key], self._observations.write
        closely = self._clock < _CLOSELY or not self._clock % _OFTEN
        trusted = None if closely or kind is int else kind
        rewards: list[Any] = []
        ended: list[EndedEpisode] = []
        i = 0
        try:
            for step, action in zip(self._steps, self._actions.rows(actions), strict=True):
                observation, reward, terminated, truncated, info = step(action)
                rewards.append(reward)
                if closely and type(info) is not dict:
                    check_info(info)
                over = terminated or truncated
                if (
                    over is not False
                    and over is not _FALSE
                    and (is_set("terminated", terminated) | is_set("truncated", truncated))
                ):
                    write(self._last, len(ended), observation)
                    ended.append(self._end(i, bool(terminated), info))
                    write(out, i, self._first_observation(i))
                elif type(observation) is trusted or (
                    type(observation) is kind  # as `write` does, without its call
                    and (
                        observation in numbers
                        if kind is int
                        else observation.dtype is dtype and observation.shape == shape
                    )
                ):
                    target[i] = observation
                else:
                    write(out, i, observation)
                i += 1
            if closely and not self._number_types.issuperset(map(type, rewards)):
                self._check_numbers(rewards)
            self._rewards[...] = rewards
        except MazeError:
            raise
        except (Exception, SystemExit) as exc:
            raise self._failure(i, rewards, ended, exc) from exc
        self._clock += 1
        reward32 = self._rewards.astype(np.float32)  # a value beyond float32's range counts as not finite
        if not isfinite(reward32.dot(reward32)) and not all_finite(reward32):  # mostly without the call
            bad = first_bad_row(reward32)
            raise non_finite("reward", self._place(bad, ended), rewards[bad])
        self._log.append(actions, reward32)
        self._after_write(out)
        self._returns += self._rewards
        result = self._result(reward32, ended)
        if self._raw:
            result.raw = self._raw_rewards(ended)
        if self._info.names:
            result.info = self._info.take()
        return result

    def _end(self, i: int, terminated: bool, info: dict[str, Any]) -> EndedEpisode:
        """Record the end of an episode and begin counting the next one."""
        meter = self._meters[i]
        now = self._clock + 1
        length = now - self._started[i]
        metrics: dict[str, float] = {}
        if info or type(info) is not dict:
            metrics = episode_metrics(info, place(self.first_index + i, self._episode[i], length))
        raw_return = None if meter is None else meter.total
        summary = None
        if self._events[i]:
            summary, kpis = take(self._events[i], length, place(self.first_index + i, self._episode[i], length))
            metrics |= kpis
        if self._info.names:
            metrics |= self._info.end(i, {"length": length, **(summary.values if summary else {}), **metrics})
        raw_reward, parameters = self._raw[i].take() if self._raw else 0.0, self._parameters.now[i]
        end = EndedEpisode(
            i, self._episode[i], length, terminated, raw_return, raw_reward, metrics, summary, parameters
        )
        self._episode[i] += 1
        self._started[i] = now
        return end

    def _check_numbers(self, rewards: list[Any]) -> None:
        """Raise MisfitError for a reward that is not a number; remember the types of those that are."""
        for reward in rewards:
            if not is_number(reward):
                raise not_a_number(reward, self.action_space)
            if isinstance(reward, np.generic | int):
                self._number_types.add(type(reward))

    def _result(self, reward: np.ndarray, ended: list[EndedEpisode]) -> StepResult:
        if not ended:
            return StepResult(reward, self._never, self._never, self._valid, _NONE_ENDED)
        terminated, truncated = self._never.copy(), self._never.copy()
        indices = [end.index for end in ended]
        final_obs = map_tree(lambda array: array[: len(ended)].copy(), self._last)
        wrong = self._observations.wrong(final_obs, "the last observation")
        if wrong:
            raise RunError(f"{self._place(indices[wrong[0]], ended)} returned {wrong[1]}")
        episodes = []
        for end in ended:
            i = end.index
            (terminated if end.terminated else truncated)[i] = True
            episodes.append(end.counted(self.first_index + i, float(self._returns[i])))
            self._returns[i] = 0.0
        self._log.keep(self._clock - min(self._started))
        rows = np.array(indices, np.int64)
        return StepResult(reward, terminated, truncated, self._valid, rows, final_obs, episodes)

    def _raw_rewards(self, ended: list[EndedEpisode]) -> np.ndarray:
        rewards = np.array([each.take() for each in self._raw], np.float32)
        for end in ended:
            rewards[end.index] = end.raw_reward
        return rewards

    def _failure(self, i: int, rewards: list[Any], ended: list[EndedEpisode], exc: BaseException) -> MazeError:
        """Return the error of a step that failed before it was counted: a raised exception, or an unusable value."""
        self._clock += 1
        bad = next((j for j, reward in enumerate(rewards) if not is_number(reward)), None)
        if bad is not None or (i == self.num_envs and not isinstance(exc, MisfitError)):
            wrong = not_a_number(rewards[bad or 0], self.action_space)
            return failure(self._place(bad or 0, ended), wrong)
        return failure(self._place(i), exc)
