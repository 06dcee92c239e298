"""The task of workers that step environments: a step at a time, whole episodes, or some steps that they choose."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from maze_core.collect.pools.workers import Task
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import agents_of
from maze_local.worker_envs import WorkerEnvs

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.collect.pools.workers import Arrays, Shared
    from maze_core.data.rollout import Rollout
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import Share, VectorEnv
    from maze_local.worker_envs import Built


class Game(Protocol):
    """Whole episodes of environments, played without a call for each step."""

    def begin(self, env: VectorEnv, share: Share) -> Any:
        """Return an object whose `advance(seconds)` plays on and returns an int, or anything else at the end."""


class Gatherer(Protocol):
    """Takes some steps at a time of a share of the environments, in the middle of their episodes."""

    def begin(self, arrays: Arrays, obs: Tree, actions: Tree | None = None) -> None:
        """Begin the next steps from the current observations, leaves [n, …], with what the driver shares.

        `actions`: those to take, leaves [T, n, …]; None: it chooses them.
        """

    def advance(self, seconds: float) -> Rollout | int:
        """Go on for so many seconds; return the steps, or the number of those so far."""


class Assignment(Protocol):
    """Steps of environments whose actions the workers choose."""

    def begin(self, env: VectorEnv, share: Share) -> Gatherer:
        """Return what a worker does with a share of the environments."""


@dataclass(frozen=True, slots=True)
class EnvJob:
    """A command for one share of the environments."""

    share: int
    command: str
    """`spaces`, `begin` (first episodes), `reset` (after earlier episodes), `restore`, `step`, `memory`,
    `play` and `go on` (a game: whole episodes), or `assign` (an assignment), `gather` and `gather on` (some steps: the
    next ones of the assignment, or with actions that are given)."""
    arguments: tuple[Any, ...] = ()
    number: int = 0
    """The number of moves before, of which `step` and `gather` are one each."""


class EnvTask(Task):
    """The task: steps shares of the environments. Any worker can restore any share from the actions recorded.

    The answer is None if this worker does not hold the share's episodes, or not where the driver left them: after the
    loss of a worker, or after Ctrl-C.
    """

    def __init__(self, builder: EnvBuilder, shares: list[Share]) -> None:
        self._builder, self._shares = builder, shares

    def setup(self, worker: int) -> None:
        """Build this worker's own share."""
        self._envs = WorkerEnvs(self._builder, self._shares)
        self._out: dict[int, Tree] = {}
        """Current observations of the shares that this worker has stepped."""
        self._moves: dict[int, int] = {}
        """The number of moves after which the shares stand that this worker holds."""
        self._gathering: dict[int, tuple[int, Gatherer]] = {}
        """What takes steps in the `gather` that is under way, with the number of moves before."""
        self._games: dict[int, Any] = {}
        """What is being played with the shares that this worker holds."""
        self._gatherers: dict[int, Gatherer] = {}
        """Of the shares that this worker has been told to take steps of."""
        self._envs.of(worker)

    def run(self, job: EnvJob, shared: Shared) -> Any:
        """Execute the command."""
        env = self._envs.of(job.share)
        if job.command == "spaces":
            return env.observation_space, env.action_space, agents_of(env), env.memory()
        if job.command in ("begin", "restore"):
            return self._begin(env, job)
        if job.command in ("play", "go on"):
            return self._play(env, job)
        if job.command == "assign":
            return self._assign(env, job.share, *job.arguments)
        if job.command == "gather on":
            number, _ = self._gathering.get(job.share, (-1, None))
            return self._gather(job) if number == job.number else None
        if self._moves.get(job.share) != job.number:
            return None
        if job.command == "reset":
            return self._begin(env, job)
        if job.command == "memory":
            return env.memory()
        if job.command == "gather":
            return self._gather(job, shared.arrays) if job.share in self._gatherers else None
        (actions,) = job.arguments
        out = self._out[job.share]
        del self._moves[job.share]
        result = env.step(actions, out)
        self._moves[job.share] = job.number + 1
        begun = [episode.env_index - env.first_index for episode in result.episodes]
        return result, out, {number: env.episode_memory[number] for number in begun}

    def _begin(self, env: Built, job: EnvJob) -> Any:
        self._gathering.pop(job.share, None)
        out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
        seeds, given, *assignment = job.arguments
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if job.command == "restore":
                env.restore(seeds, given, out)
            else:
                env.load_memory(given)
                env.reset(seeds, out)
        self._out[job.share], self._moves[job.share] = out, job.number
        if assignment:
            self._assign(env, job.share, *assignment)
        state = env.state()
        said = [(str(each.message), each.category) for each in caught]
        place = {name: state[name] for name in ("episode", "length", "acting") if name in state}
        return out, place, env.episode_memory, said

    def _play(self, env: Built, job: EnvJob) -> Any:
        """Play for some seconds; return the game's answer in a tuple."""
        seconds, *content = job.arguments
        if content:
            self._moves.pop(job.share, None)
            try:
                sent: Game = pickle.loads(content[0])  # noqa: S301 — from the driver
            except (AttributeError, ImportError):  # such as a model that was defined in a notebook
                return (None,)
            self._games[job.share] = sent.begin(env, self._shares[job.share])
        game = self._games.get(job.share)
        return None if game is None else (game.advance(seconds),)

    def _assign(self, env: Built, share: int, content: bytes) -> bool:
        """Accept an assignment; return False if it cannot be read here."""
        try:
            sent: Assignment = pickle.loads(content)  # noqa: S301 — from the driver
        except (AttributeError, ImportError):  # such as a model that was defined in a notebook
            return False
        self._gatherers[share] = sent.begin(env, self._shares[share])
        return True

    def _gather(self, job: EnvJob, arrays: Arrays | None = None) -> Any:
        """Take the next steps, for some seconds; return them, or the number of those so far.

        `arrays`: what the driver shares, if they are to begin.
        """
        seconds, *actions = job.arguments
        out = self._out[job.share]
        if arrays is not None:
            gatherer = self._gatherers[job.share]
            del self._moves[job.share]
            self._gathering[job.share] = job.number, gatherer
            gatherer.begin(arrays, out, *actions)
        answer = self._gathering[job.share][1].advance(seconds)
        if not isinstance(answer, int):
            for key, leaf in answer.obs.items():
                out[key][...] = leaf[-1]
            del self._gathering[job.share]
            self._moves[job.share] = job.number + 1
        return answer

    def close(self) -> None:
        """Close the environments."""
        if hasattr(self, "_envs"):
            self._envs.close()
