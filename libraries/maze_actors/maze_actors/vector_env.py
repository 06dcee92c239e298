"""Copies of an environment with several agents, stepped in turn in this process: one row for each agent of a copy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_actors.agent_rows import built_alike
from maze_actors.agents import MultiAgentEnv, Round
from maze_actors.wrapped import lasting_parts
from maze_core.base.errors import MazeError, RunError
from maze_core.base.tree import Tree, copy_tree, put_rows, take_rows
from maze_core.envs.checks import (
    MisfitError,
    all_finite,
    check_info,
    failure,
    first_bad_row,
    is_number,
    naming,
    non_finite,
    not_a_number,
    place,
    replay,
    warn_not_replayed,
)
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.events import check_separate, events_of, take
from maze_core.envs.info_columns import InfoColumns
from maze_core.envs.parameters import EpisodeParameters, of_parameters
from maze_core.envs.recorded_state import StepLog, check_count
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Episode, StepResult
from maze_core.envs.wrappers import recall, remembered
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodePlan, EpisodeSeeds
    from maze_core.envs.wrappers import Memory

    MakeAgents = Callable[[int], MultiAgentEnv]


class AgentsVectorEnv:
    """C copies of an environment with A agents as C * A rows: row `c * A + a` is that of agent a in copy c.

    An agent that may not act waits: `StepResult.valid` is False, its action is ignored, and its row repeats the last
    observation it acted on (a blank before its first). Its reward and its flags count: they belong to its last action.
    When a copy's episode is over, the next one begins in the same step.

    Copies are counted from `first_index`; episode k of copy c begins with `reset(seeds(c, k))`. What a row holds, and
    what `agent_ids` changes, says `AgentRowCodec`.

    Raises:
        ConfigError: a space is not supported, or copies have different agents or spaces.
        RunError: an environment raised, or broke the rules of `MultiAgentEnv`; names it.
    """

    def __init__(
        self,
        make: MakeAgents,
        copies: int,
        first_index: int = 0,
        *,
        agent_ids: bool = False,
        info_columns: Sequence[str] = (),
    ) -> None:
        self.first_index, self._builder = first_index, getattr(make, "__self__", None)
        self._parameters = EpisodeParameters(copies, self._builder)
        self.envs, self._layout = built_alike(make, range(first_index, first_index + copies), agent_ids)
        self.agents: tuple[str, ...] = tuple(self.envs[0].agents)
        """The names of the agents of each copy."""
        self.num_envs = copies * len(self.agents)
        self._info = InfoColumns(info_columns, self.num_envs)
        self._events = [events_of(env) for env in self.envs]
        check_separate(self._events)
        self._column = {name: a for a, name in enumerate(self.agents)}
        self.observation_space, self.action_space = self._layout.observation_space, self._layout.action_space
        self._actions = ActionCodec(self.action_space)
        self._log = StepLog(self._actions.specs, self.num_envs)
        self._keeps_raw = False
        specs = space_specs(self.observation_space, "observation")
        self._current, self._last = allocate(specs, (self.num_envs,)), allocate(specs, (self.num_envs,))
        self._seeds: EpisodeSeeds | None = None
        self._lasting = [lasting_parts(env) for env in self.envs]
        self.episode_memory = self.memory()  # what wrappers remembered when the episode of each copy began
        self._begin(np.zeros(copies, np.int64))

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""
        self._seeds = self._parameters.planned(seeds)
        self._begin(np.zeros(len(self.envs), np.int64))
        for c in range(len(self.envs)):
            outcome = self._reset(c)
            for agent, observation in outcome.acting.items():
                self._row(c, agent)
                self._layout.check(agent, observation)
                self._layout.check_critic(outcome.critic)
            self._read(c, outcome)
        self._write(out)

    def keep_raw(self) -> None:
        """Return the rewards before all wrappers, too, from now on: `StepResult.raw`."""
        self._keeps_raw = True

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every copy with the actions of the agents that act; write the next observations into `out`."""
        valid = self._acting.copy()
        rewards, raw = np.zeros((2, self.num_envs))
        terminated, truncated, restarted = np.zeros((3, self.num_envs), np.bool_)
        episodes: list[Episode] = []
        chosen = self._actions.rows(actions)
        self._clock += 1
        self._info.rest(np.ones(self.num_envs, np.bool_))
        for c in range(len(self.envs)):
            outcome = self._play(c, chosen)
            self._collect(c, outcome, rewards, raw, terminated, truncated)
            if not outcome.acting:
                self._stored(rewards)  # before the copy counts its next episode
                episodes.append(self._end(c, outcome))
                restarted[self._rows(c)] = True
                outcome = self._reset(c)
            self._read(c, outcome)
        reward32 = self._stored(rewards)
        self._log.append(actions, reward32)
        if episodes:
            self._log.keep(self._clock - int(self._started.min()))
        self._write(out)
        ended = np.flatnonzero(terminated | truncated)
        final_obs = take_rows(self._last, ended) if len(ended) else None
        result = StepResult(reward32, terminated, truncated, valid, ended, final_obs, episodes, not valid.all())
        result.acting, result.restarted = self._acting.copy(), restarted
        result.raw = raw.astype(np.float32) if self._keeps_raw else None
        result.info = self._info.take()
        return result

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes, as `SerialVectorEnv.state` does.

        `episode` and `length` have an entry for each copy, all else a row for each agent; `acting` says who acts next.
        """
        lengths = self._clock - self._started
        return {
            "episode": self._episode.copy(),
            "length": lengths,
            **self._log.recorded(np.repeat(lengths, len(self.agents))),
            "observation": copy_tree(self._current),
            "acting": self._acting.copy(),
            "memory": list(self.episode_memory),
            **self._parameters.state(),
        }

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Replay the unfinished episodes of `state`; write the current observations into `out`.

        Warns when the replay differs from the recorded rewards and observations.

        Raises:
            ConfigError: the state has another number of copies.
        """
        lengths = check_count(state, len(self.envs))
        self._seeds = self._parameters.planned(seeds)
        self._parameters.load(state)
        self._begin(np.array(state["episode"], np.int64))
        self._log.load(state)
        self.load_memory(state["memory"])
        self._clock = len(state["rewards"])
        for key, leaf in state["observation"].items():
            self._current[key][...] = leaf
        with replay():
            exact = [self._replay(c, int(lengths[c]), state) for c in range(len(self.envs))]
        same = np.array_equal(self._acting, state["acting"]) and all(
            np.array_equal(self._current[key], leaf) for key, leaf in state["observation"].items()
        )
        if not (same and all(exact)):
            warn_not_replayed()
        self._write(out)

    def memory(self) -> list[Memory]:
        """Return what the wrappers of each copy remember across episodes."""
        return [remembered(each) for each in self._lasting]

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()`; copies without an entry keep their memory."""
        for layers, each in zip(self._lasting, memory, strict=False):
            recall(layers, each)

    def instruct(self, plan: EpisodePlan) -> None:
        """Let the episodes that begin from now on have these parameters."""
        self._parameters.instruct(plan)

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        envs, self.envs = self.envs, []
        release(*envs)

    def _begin(self, episode: np.ndarray) -> None:
        copies = len(self.envs)
        self._episode, self._clock = episode, 0
        self._started = np.zeros(copies, np.int64)
        """The step of the clock at which each copy's episode began."""
        self._returns = np.zeros(self.num_envs)
        self._info.begin()
        self._decisions = np.zeros(self.num_envs, np.int64)
        self._acting, self._present = np.zeros((2, self.num_envs), np.bool_)
        """The agents that act next, and those that are in the episode."""
        self._waited = np.ones(self.num_envs, np.int64)
        """Rounds since each agent's last action."""
        for tree in (self._current, self._last):
            for row in range(self.num_envs):
                self._layout.clear(tree, row, self.agents[row % len(self.agents)])
        self._log.clear()

    def _rows(self, c: int) -> slice:
        return slice(c * len(self.agents), (c + 1) * len(self.agents))

    def _row(self, c: int, agent: str) -> int:
        if agent not in self._column:
            raise RunError(f"{self._place(c)} names an agent {agent!r:.80}, but its agents are {self.agents}")
        return c * len(self.agents) + self._column[agent]

    def _reset(self, c: int) -> Round:
        if self._seeds is None:
            raise RunError("reset the environments before the first step")
        index, number = self.first_index + c, int(self._episode[c])
        self._parameters.begin(c, index, number)
        with naming(self._place(c)):
            seed = self._parameters.give(c, self.envs, self._rebuild, self._seeds(index, number))
        self.episode_memory[c] = remembered(self._lasting[c])
        outcome = self._called(c, lambda: self.envs[c].reset(seed))
        if not outcome.acting:
            raise RunError(f"{self._place(c)}: no agent acts after the reset")
        for events in self._events[c]:
            events.clear()
        return outcome

    def _rebuild(self, c: int, arguments: Mapping[str, Any]) -> None:
        """Put another environment in the place of copy c, with what the wrappers remember."""
        old, memory = self.envs[c], remembered(self._lasting[c])
        self.envs[c] = new = of_parameters("rebuilt")(
            self._builder, self.first_index + c, arguments, old, lambda make, k: make.agents_env(k)
        )
        release(old)
        self._lasting[c], self._events[c] = lasting_parts(new), events_of(new)
        recall(self._lasting[c], memory)

    def _play(self, c: int, chosen: list[Any]) -> Round:
        """Step copy c with the actions of its agents that act; `chosen`: the actions of all rows."""
        rows = range(*self._rows(c).indices(self.num_envs))
        own = self._layout.own
        taken = {name: own(name, chosen[row]) for name, row in zip(self.agents, rows, strict=True) if self._acting[row]}
        acting = self._acting[self._rows(c)]
        self._decisions[self._rows(c)] += acting
        self._waited[self._rows(c)] = np.where(acting, 1, self._waited[self._rows(c)] + 1)
        outcome = self._called(c, lambda: self.envs[c].step(taken))
        for events in self._events[c]:
            events.end_step()
        return outcome

    def _called(self, c: int, call: Callable[[], Round]) -> Round:
        try:
            outcome = call()
            check_info(outcome.infos)
            for info in outcome.infos.values():
                check_info(info)
            return outcome
        except MazeError:
            raise
        except (Exception, SystemExit) as exc:
            raise failure(self._place(c), exc) from exc

    def _collect(
        self,
        c: int,
        outcome: Round,
        rewards: np.ndarray,
        raw: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
    ) -> None:
        """Write a step's rewards, also those before the wrappers, flags and last observations into the arrays `[N]`."""
        for agent, reward in outcome.rewards.items():
            row = self._row(c, agent)
            if type(reward) is not float and not is_number(reward):
                raise failure(self._place(c), not_a_number(reward))
            rewards[row] = reward
            raw[row] = reward if outcome.raw is None else outcome.raw.get(agent, 0.0)
            self._returns[row] += raw[row]
        if self._info.names:
            self._read_infos(c, outcome)
        for flags, ended in ((truncated, outcome.truncated), (terminated, outcome.terminated)):
            for agent, observation in ended.items():
                row = self._row(c, agent)
                if self._present[row]:  # else it has ended before, or never took part
                    flags[row] = True
                    self._put(c, self._last, row, agent, observation, outcome.critic)
        rows = self._rows(c)
        truncated[rows] &= ~terminated[rows]
        self._present[rows] &= ~(terminated[rows] | truncated[rows])

    def _read_infos(self, c: int, outcome: Round) -> None:
        """Read what agents that have acted are told beside what they observe next.

        A time limit of the core may cut an agent that waits, which the environment tells nothing.
        """
        for agent in {**outcome.acting, **outcome.terminated, **outcome.truncated}:
            row = self._row(c, agent)
            cut = agent in outcome.truncated and agent not in outcome.infos
            if self._present[row] and self._decisions[row] and not cut:
                try:
                    self._info.read(row, outcome.infos.get(agent, {}))
                except MisfitError as exc:
                    raise RunError(f"{self._place(c)} returned for agent {agent!r} {exc}") from exc

    def _stored(self, rewards: np.ndarray) -> np.ndarray:
        """Return rewards `[N]` as float32. Raises RunError for one that is not finite."""
        reward32 = rewards.astype(np.float32)
        if not all_finite(reward32):
            bad = first_bad_row(reward32)
            raise non_finite("reward", self._place(bad // len(self.agents)), rewards[bad])
        return reward32

    def _read(self, c: int, outcome: Round) -> None:
        """Make those that a result names the ones that act next."""
        self._acting[self._rows(c)] = False
        for agent, observation in outcome.acting.items():
            row = self._row(c, agent)
            self._acting[row] = self._present[row] = True
            self._put(c, self._current, row, agent, observation, outcome.critic)

    def _put(self, c: int, tree: Tree, row: int, agent: str, observation: Any, critic: Any) -> None:
        try:
            self._layout.write(tree, row, agent, observation)
            self._layout.write_around(tree, row, critic, int(self._waited[row]))
        except MisfitError as exc:
            raise RunError(f"{self._place(c)} returned {exc}") from exc
        wrong = self._layout.wrong(tree, row, agent)
        if wrong:
            raise RunError(f"{self._place(c)} returned {wrong}")

    def _end(self, c: int, outcome: Round) -> Episode:
        """Record the end of copy c's episode and begin counting the next one."""
        rows = self._rows(c)
        if self._present[rows].any():
            left = [name for name, here in zip(self.agents, self._present[rows], strict=True) if here]
            raise RunError(
                f"{self._place(c)}: nobody acts next, but {', '.join(left)} neither terminated nor truncated"
            )
        number, length = int(self._episode[c]), int(self._clock - self._started[c])
        took_part = (self._decisions[rows] > 0) | (self._returns[rows] != 0)
        returns = {
            name: float(total)
            for name, total, here in zip(self.agents, self._returns[rows], took_part, strict=True)
            if here
        }
        metrics = {f"actor/{name}/return_mean": total for name, total in returns.items()}
        metrics |= {f"actor/{name}/length_mean": float(self._decisions[rows][self._column[name]]) for name in returns}
        told = self._end_infos(c, returns)
        summary, kpis = take(self._events[c], length, self._place(c))
        self._episode[c] += 1
        self._started[c] = self._clock
        self._returns[rows], self._decisions[rows], self._waited[rows] = 0.0, 0, 1
        score = self.envs[c].score(returns)
        metrics |= {**outcome.metrics, **kpis, **told}
        now = self._parameters.now[c]
        return Episode(self.first_index + c, number, float(score), length, metrics, summary, now)

    def _end_infos(self, c: int, took_part: Collection[str]) -> dict[str, float]:
        """Return the sums of the numbers of `info` of an episode that has just ended: of each agent, and their mean."""
        sums = {name: self._info.end(self._row(c, name), {}) for name in self.agents}
        keys = [f"{name}_return_mean" for name in self._info.names]
        told = {key: sum(sums[name][key] for name in took_part) / max(1, len(took_part)) for key in keys}
        return told | {f"actor/{name}/{key}": sums[name][key] for name in took_part for key in keys}

    def _write(self, out: Tree) -> None:
        put_rows(out, ..., self._current)

    def _replay(self, c: int, length: int, state: Mapping[str, Any]) -> bool:
        """Repeat the last `length` steps of copy c; return False where rewards differ or the episode ends."""
        self._started[c] = self._clock - length
        self._read(c, self._reset(c))
        rewards, raw = np.zeros((2, self.num_envs))
        flags = np.zeros((2, self.num_envs), np.bool_)
        same = True
        for t in range(self._clock - length, self._clock):
            outcome = self._play(c, self._actions.rows(take_rows(state["actions"], t)))
            rewards[:] = 0
            self._collect(c, outcome, rewards, raw, *flags)
            same &= np.array_equal(rewards[self._rows(c)].astype(np.float32), state["rewards"][t, self._rows(c)])
            if not outcome.acting:
                self._end(c, outcome)
                self._read(c, self._reset(c))
                return False
            self._read(c, outcome)
        return same

    def _place(self, c: int) -> str:
        return place(self.first_index + c, int(self._episode[c]), int(self._clock - self._started[c]))
