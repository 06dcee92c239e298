"""Natively vectorised environments: one adapter for gymnasium's three autoreset modes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.tree import Tree, copy_tree, take_rows
from maze_core.envs.checks import (
    MisfitError,
    all_finite,
    check_info,
    failure,
    first_bad_row,
    naming,
    non_finite,
    place,
)
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.events import take
from maze_core.envs.info_columns import CONSTRAINT, InfoColumns
from maze_core.envs.masks import mask_leaves
from maze_core.envs.recorded_state import episode_key
from maze_core.envs.spaces import allocate
from maze_core.envs.vector import Episode, StepResult
from maze_core.envs.wrappers import lasting_layers, recall, remembered
from maze_core.plugins.closing import release
from maze_core.plugins.other_interfaces import check_reset
from maze_foreign_envs.counting import counted
from maze_foreign_envs.resumed import resumable
from maze_foreign_envs.rows import each_row, events_of_rows, flags_of, rows_of_infos, vector_reward_meter
from maze_foreign_envs.tensor_envs import OnHost

if TYPE_CHECKING:
    import gymnasium

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.envs.wrappers import Memory


class NativeVectorEnv:
    """Adapts a `gymnasium.vector.VectorEnv` of any autoreset mode to Maze's transitions.

    - NEXT_STEP: the step after an episode's end is filler: its row has `valid` False. The policy sees the
      environment's very first observation there: the mask of an episode's last one may forbid every choice.
    - SAME_STEP: the last observation of an episode comes from `info["final_obs"]`.
    - DISABLED: this class resets ended environments, with the seed of their next episode.

    In the first two modes an environment seeds its later episodes itself, unless it is `Resumable`: then each episode
    has the seed of its number, and the state of the environments is part of the saved one. In SAME_STEP mode
    gymnasium's SyncVectorEnv returns the last observation uncopied: environments that overwrite theirs need another.

    Args:
        env: the environment.
        info_columns: as `Algorithm.info_columns`.

    Raises:
        ConfigError: the environment does not state its autoreset mode, or a space is not supported.
        RunError: a reward or observation is not finite, or the environment raised.
    """

    replays = False
    """It begins new episodes, see `can_replay`."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], info_columns: Sequence[str] = ()) -> None:
        self._env = env
        self._info = InfoColumns(info_columns, env.num_envs)
        self._closed = False
        self.num_envs = env.num_envs
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.mode = _autoreset_mode(env)
        """How the environment resets."""
        self._meter = vector_reward_meter(env)
        self._lasting = lasting_layers(env)
        inside = env.unwrapped.envs if isinstance(env.unwrapped, SyncVectorEnv) else ()
        self._of_rows = [lasting_layers(each) for each in inside]
        self._events = events_of_rows(env, env.num_envs)
        self._has_events = any(self._events)
        self._resumable = resumable(env)
        self._by_step = [each for row in self._events for each in row if each.by_step]
        # Refuses masks that would be ignored.
        self._masked = bool(mask_leaves(self.observation_space, self.action_space))
        self._observations = ObservationCodec(self.observation_space)
        self._actions = ActionCodec(self.action_space)
        # Only these take one seed for each environment; others draw all episodes from one generator.
        self._many_seeds = isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self._episode = np.zeros(self.num_envs, np.int64)
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._valid = np.ones(self.num_envs, np.bool_)
        self._none = np.broadcast_to(np.False_, self.num_envs)
        """The flags of a step that ends no episode; they cannot be changed."""
        self._filler: np.ndarray | None = None
        """The rows whose next step is filler; None: there are none."""
        self._first: Tree = {}
        """The first observations of all environments, leaves `[N, …]`."""

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""
        self._seeds = seeds
        self._begin(np.zeros(self.num_envs, np.int64))
        self._reset_all(out)

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment; write the next observations into `out`."""
        try:
            observation, reward, terminated, truncated, info = self._env.step(self._actions.batch(actions))
        except MazeError:
            raise
        except Exception as exc:
            raise failure("the vectorised environment", exc) from exc
        filler, valid = self._filler, self._valid
        if filler is not None:
            valid = ~filler
        self._lengths += 1 if filler is None else valid
        try:
            if type(info) is not dict:
                check_info(info)
            terminated = flags_of("terminated", terminated, self.num_envs)
            truncated = flags_of("truncated", truncated, self.num_envs)
            rewards = each_row("rewards", reward, self.num_envs)
        except MisfitError as exc:
            raise RunError(f"{self._place(exc.row)} returned {exc}") from exc
        over = terminated | truncated
        if filler is not None:
            over &= valid
        (ended,) = over.nonzero()
        # Some environments return arrays that they overwrite.
        if len(ended):
            terminated = terminated & valid
            truncated = over & ~terminated
        else:
            terminated = truncated = self._none
        if not rewards.ndim:
            rewards = np.full(self.num_envs, rewards, np.float64)
        raw = rewards if self._meter is None else np.asarray(self._meter.last, np.float64)
        self._write(observation, out, self.mode is AutoresetMode.SAME_STEP and over)
        for events in self._by_step:
            events.end_step()
        if filler is not None:
            rewards, raw = np.where(valid, rewards, 0.0), np.where(valid, raw, 0.0)
            self._clear_events(np.flatnonzero(filler))  # a filler row resets
        if not all_finite(rewards):
            bad = first_bad_row(rewards)
            raise non_finite("reward", self._place(bad), rewards[bad])
        self._returns += raw
        reward32 = rewards.astype(np.float32)
        result = StepResult(reward32, terminated, truncated, valid, ended, has_filler=filler is not None)
        result.raw = None if self._meter is None else raw.astype(np.float32)
        if self._info.names:
            self._read_info(info, valid, ended)
        self._filler = None
        if len(ended):
            self._end(ended, info, out, result)
        result.info = self._info.take()
        return result

    def tensors(self) -> OnHost | None:
        """Return the layer whose `env` can be stepped with tensors alone, for `count` afterwards; None: there is none.

        Wrappers, events, masks, numbers of the `info` and resets by this class have to see each step on the host.
        """
        env = self._env
        if self._seen_on_host or self.mode is AutoresetMode.DISABLED or not isinstance(env, OnHost):
            return None
        return env if env.has_tensors else None

    def at_once(self) -> Any:
        """Return the environment that takes whole rollouts in one call, for `count` afterwards: it `rolls`.

        Or why it cannot, as a sentence without its end; None: its class does not know how to.
        """
        inner: Any = self._env.unwrapped
        if not getattr(inner, "rolls", False):
            return None
        wrapped = inner is not self._env or self._seen_on_host
        return "a wrapper, a mask, an event or the info has to see each step" if wrapped else inner

    @property
    def _seen_on_host(self) -> bool:
        """True where something has to see each step on the host."""
        return self._masked or bool(self._info.names) or self._has_events or self._meter is not None

    def count(
        self, rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
    ) -> tuple[np.ndarray, list[Episode]]:
        """Count T steps that were taken with `tensors`: rewards [T, N], and flags [T, N] bool, which are corrected.

        Returns:
            The valid rows, [T, N] bool, and the episodes that ended, in order.

        Raises:
            RunError: a reward is not finite.
        """
        valid = np.ones(rewards.shape, np.bool_)
        if self.mode is AutoresetMode.NEXT_STEP:
            for t in range(len(valid)):
                valid[t] = True if self._filler is None else ~self._filler
                self._filler = valid[t] & (terminated[t] | truncated[t])
            terminated &= valid
        truncated &= valid & ~terminated
        rewards, ended = np.where(valid, rewards, 0.0), terminated | truncated
        if not all_finite(rewards):
            t, bad = (int(each[0]) for each in np.nonzero(~np.isfinite(rewards)))
            raise non_finite("reward", self.place_within(ended, valid, t, bad), rewards[t, bad])
        found = counted(rewards, ended, valid, self._returns, self._lengths)
        columns = (found.row, self._episode[found.row] + found.number, found.total, found.length)
        episodes = [Episode(*values) for values in zip(*(each.tolist() for each in columns), strict=True)]
        self._returns[:], self._lengths[:] = found.open_total, found.open_length
        self._episode += ended.sum(0)
        return valid, episodes

    def place_within(self, ended: np.ndarray, valid: np.ndarray, t: int, row: int) -> str:
        """Return the beginning of an error about step t of those that `count` takes; both [T, N]."""
        before = np.flatnonzero(ended[:t, row])
        taken = int(valid[before[-1] + 1 if len(before) else 0 : t + 1, row].sum())
        going_on = 0 if len(before) else int(self._lengths[row])
        return place(row, int(self._episode[row]) + len(before), going_on + taken)

    def state(self) -> dict[str, Any]:
        """Return the episode numbers, and what wrappers remember; of a `Resumable` environment also its own state."""
        state = {"native_episode": self._episode.copy(), "memory": self.memory()}
        if self._resumable is not None and self._resumable.begun:
            own = {"length": self._lengths.copy(), "return": self._returns.copy(), "arrays": self._resumable.saved()}
            state["native"] = own
        return state

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Go on with a `Resumable` environment; else begin episodes, numbered after the recorded, and warn of it."""
        recorded = np.asarray(state[episode_key(state)], np.int64)
        if self._resumable is not None and "native" in state and len(recorded) == self.num_envs:
            self._seeds = seeds
            self.load_memory(state["memory"])
            self._begin(recorded.copy())
            self._lengths[:], self._returns[:], observation = self._resumable.continued(state["native"], seeds)
            self._write(observation, out)
            return
        following = recorded.max(initial=-1) + 1
        warnings.warn(
            "a natively vectorised environment cannot return to a recorded state: its unfinished episodes are "
            "dropped and new ones begin, so this run does not continue exactly where it stopped",
            RuntimeWarning,
            stacklevel=2,
        )
        self._seeds = seeds
        self.load_memory(state["memory"])
        self._begin(recorded + 1 if len(recorded) == self.num_envs else np.full(self.num_envs, following))
        self._reset_all(out)

    def memory(self) -> list[Memory]:
        """Return what wrappers remember: one entry, or one for each environment where each has wrappers of its own."""
        whole = remembered(self._lasting)
        if any(self._of_rows):
            return [[*whole, *remembered(each)] for each in self._of_rows]
        return [whole] if whole else []

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()`, also of another number of environments."""
        for row, each in enumerate(memory[: max(1, len(self._of_rows))]):
            own = self._of_rows[row] if self._of_rows else []
            recall([*self._lasting, *own], each)

    def close(self) -> None:
        """Close the environment; safe to call twice."""
        if not self._closed:
            self._closed = True
            release(self._env)

    def _begin(self, episode: np.ndarray) -> None:
        self._episode = episode
        self._returns[:], self._lengths[:], self._filler = 0.0, 0, None
        self._info.begin()

    def _reset_all(self, out: Tree) -> None:
        seeds: Any = None
        if self._resumable is not None:
            self._resumable.begin(self._seeds, self._episode)
        else:
            seeds = self._episode_seeds()
        observation = self._begun(seed=seeds if self._many_seeds or seeds is None else seeds[0])
        self._observations.check(observation, (self.num_envs,))
        self._write(observation, out)
        self._clear_events(range(self.num_envs))
        self._first = copy_tree(out)

    def _begun(self, **arguments: Any) -> Any:
        """Reset environments, and return all observations."""
        with naming("the vectorised environment at a reset"):
            result: Any = self._env.reset(**arguments)
        check_reset(result)
        return result[0]

    def _end(self, ended: np.ndarray, info: dict[str, Any], out: Tree, result: StepResult) -> None:
        """Record the ended episodes and their last observations; in DISABLED mode begin the next episodes."""
        if self.mode is AutoresetMode.SAME_STEP:
            result.final_obs = self._final_observations(ended, info)
        else:
            result.final_obs = take_rows(out, ended)
        result.episodes += self._ended(ended)
        if self.mode is AutoresetMode.NEXT_STEP:
            for key, array in out.items():
                array[ended] = self._first[key][ended]
        elif self.mode is AutoresetMode.DISABLED:
            mask = np.zeros(self.num_envs, np.bool_)
            mask[ended] = True
            seeds: Any = self._episode_seeds() if self._many_seeds else None
            observation = self._begun(seed=seeds, options={"reset_mask": mask})
            self._write(observation, out)
            self._clear_events(ended)

    def _ended(self, ended: np.ndarray) -> list[Episode]:
        """Return the episodes of these rows, which have ended; their next ones begin."""
        episodes = []
        counts = (each[ended].tolist() for each in (self._episode, self._returns, self._lengths))
        for i, number, total, length in zip(ended.tolist(), *counts, strict=True):
            events = self._events[i]
            summary, kpis = take(events, length, self._place(i)) if events else (None, {})
            told = self._info.end(i, {"length": length, **(summary.values if summary else {}), **kpis})
            episodes.append(Episode(i, number, total, length, {**kpis, **told}, summary))
        self._episode[ended] += 1
        self._returns[ended], self._lengths[ended] = 0.0, 0
        if self.mode is AutoresetMode.NEXT_STEP:
            self._filler = np.zeros(self.num_envs, np.bool_)
            self._filler[ended] = True
        return episodes

    def _read_info(self, info: dict[str, Any], valid: np.ndarray, ended: np.ndarray) -> None:
        """Read the numbers of the algorithm in the info."""
        infos = rows_of_infos(info, [name.removeprefix(CONSTRAINT) for name in self._info.names], self.num_envs, ended)
        try:
            for row in np.flatnonzero(valid).tolist():
                self._info.read(row, infos[row])
        except MisfitError as exc:
            raise RunError(f"{self._place(exc.row)} returned {exc}") from exc
        self._info.rest(~valid)

    def _clear_events(self, rows: Iterable[int]) -> None:
        for row in rows if self._has_events else ():
            for events in self._events[row]:
                events.clear()

    def _final_observations(self, ended: np.ndarray, info: dict[str, Any]) -> Tree:
        if "final_obs" not in info:
            raise RunError("the vectorised environment resets in the same step but its info has no 'final_obs'")
        given = info["final_obs"]
        tree = allocate(self._observations.specs, (len(ended),))
        try:
            if isinstance(given, np.ndarray) and given.dtype == object:
                for row, i in enumerate(ended.tolist()):
                    place = self._place(i)
                    self._observations.write(tree, row, given[i])
            else:
                place = self._place(int(ended[0]))
                whole = allocate(self._observations.specs, (self.num_envs,))
                self._observations.write_all(whole, given)
                tree = take_rows(whole, ended)
        except MisfitError as exc:
            raise RunError(f"{place} returned {exc}") from exc
        wrong = self._observations.wrong(tree, "the last observation")
        if wrong:
            raise RunError(f"{self._place(int(ended[wrong[0]]))} returned {wrong[1]}")
        return tree

    def _write(self, observation: Any, out: Tree, begun: Any = False) -> None:
        """Write the observations of all environments; those of the rows that have `begun` are of the next episode."""
        try:
            self._observations.write_all(out, observation)
        except MisfitError as exc:
            raise RunError(f"{self._place(exc.row, begun)} returned {exc}") from exc
        wrong = self._observations.wrong(out)
        if wrong:
            raise RunError(f"{self._place(wrong[0], begun)} returned {wrong[1]}")

    def _episode_seeds(self) -> list[int]:
        return [self._seeds(i, int(k)) for i, k in enumerate(self._episode)]

    def _place(self, i: int, begun: Any = False) -> str:
        next_one = bool(np.broadcast_to(begun, self.num_envs)[i])
        return place(i, int(self._episode[i]) + next_one, 0 if next_one else int(self._lengths[i]))


def _autoreset_mode(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    mode = (env.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError as exc:
        raise ConfigError(
            f"the vectorised environment does not say how it resets: metadata['autoreset_mode'] is {mode!r}",
            where="env",
            hint="Set it to a gymnasium.vector.AutoresetMode.",
        ) from exc
