"""The task of workers that step environments: a step at a time, whole episodes, or some steps that they choose."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from maze_core import Task, take_rows
from maze_core.base.tree import put_rows
from maze_core.envs.in_process import in_turn
from maze_core.envs.vector import Share, agents_of
from maze_core.plugins.closing import release
from maze_local.step_arrays import StepArrays, step_specs

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import EnvBuilder, EpisodeSeeds, Rollout, Shared, Tree, VectorEnv
    from maze_core.base.seeding import EpisodePlan
    from maze_core.collect.pools.workers import Arrays
    from maze_core.envs.checks import MakeEnv
    from maze_core.envs.vector import Episode
    from maze_core.envs.wrappers import Memory


_POSITION = ("episode", "length", "acting", "parameters")
"""What a recorded state says about where the episodes stand."""


class Game(Protocol):
    """Whole episodes of environments, played without a call for each step."""

    def begin(self, env: VectorEnv, share: Share) -> Any:
        """Return an object whose `advance(seconds)` plays on: it returns an int on the way, and its result at the end.

        The int tells how far it is.
        """


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


class Progress(NamedTuple):
    """The answer of a long job that is not finished: how far it is."""

    steps: int


class Kind(NamedTuple):
    """What the environments of a share are like."""

    observation_space: Space[Any]
    action_space: Space[Any]
    agents: tuple[str, ...]


class Begun(NamedTuple):
    """Where the episodes of a share stand after they began or were replayed."""

    obs: Tree
    """The current observations, leaves [n, …]."""
    position: dict[str, Any]
    """`episode` and `length` of the unfinished episodes, and `acting` of several agents, as in a recorded state."""
    memory: list[Memory]
    """What the wrappers remembered when these episodes began."""
    warnings: list[tuple[str, type[Warning]]]


class Stepped(NamedTuple):
    """What a step of a share led to, beside what is in the arrays that driver and worker share."""

    episodes: list[Episode]
    """Those that ended."""
    memory: dict[int, Memory]
    """What the wrappers of environments whose episodes have just begun remember, by their number in the share."""
    sent: Tree
    """What the driver does not share, see `StepArrays`."""


class EnvShare:
    """The environments of one share in a worker, and where their episodes stand. An `EnvJob` calls one of its methods.

    A worker that was started again knows nothing of the episodes, and after Ctrl-C workers may be ahead of the driver.
    So the driver counts its moves, the calls in which all environments take steps, and methods are told how many there
    were before. They return None if the episodes do not stand there; then the driver restores them.
    """

    def __init__(self, builder: EnvBuilder | MakeEnv, share: Share) -> None:
        self._share = share
        self._env = in_turn(builder, share.count, share.first)
        self._specs = step_specs(self._env, info_columns_of(builder))
        self._steps: StepArrays | None = None
        self.shared: Arrays = {}
        """What the driver shared last."""
        self._moves: int | None = None
        """The number of moves after which the episodes stand; None: they are within one, or not the driver's."""
        self._gatherer: Gatherer | None = None
        self._gathering: int | None = None
        """The number of moves before the `gather` that is under way."""
        self._game: Any = None

    def kind(self) -> tuple[Kind, list[Memory]]:
        """Return what these environments are like, and what their wrappers remember at first."""
        env = self._env
        return Kind(env.observation_space, env.action_space, agents_of(env)), env.memory()

    # Episodes

    def begin(self, moves: int, block: str | None, seeds: EpisodeSeeds, memory: list[Memory]) -> Begun:
        """Begin the first episodes after loading what wrappers remember.

        `block`: the shared memory of the arrays of a step; None: they are sent.
        """
        obs = self._arrays(block).obs

        def first() -> None:
            self._env.load_memory(memory)
            self._env.reset(seeds, obs)

        return self._begun(moves, obs, first)

    def reset(self, moves: int, block: str | None, seeds: EpisodeSeeds, memory: list[Memory]) -> Begun | None:
        """Begin the first episodes again; wrappers may remember the earlier ones."""
        return self.begin(moves, block, seeds, memory) if self._moves == moves else None

    def restore(
        self, moves: int, block: str | None, seeds: EpisodeSeeds, state: dict[str, Any], assignment: bytes | None = None
    ) -> Begun:
        """Replay the unfinished episodes of a recorded state. `assignment`: that of these environments."""
        obs = self._arrays(block).obs
        begun = self._begun(moves, obs, lambda: self._env.restore(seeds, state, obs))
        if assignment is not None:
            self.assign(assignment)
        return begun

    def memory(self, moves: int) -> list[Memory] | None:
        """Return what the wrappers remember across episodes."""
        return self._env.memory() if self._moves == moves else None

    def step(self, moves: int, actions: Tree | None) -> Stepped | None:
        """Step every environment once. `actions`: leaves [n, …]; None: they are in the shared arrays."""
        if self._moves != moves or self._steps is None:
            return None
        self._moves, env, steps = None, self._env, self._steps
        result = env.step(steps.actions if actions is None else actions, steps.obs)
        steps.write(result)
        self._moves = moves + 1
        begun = [episode.env_index - env.first_index for episode in result.episodes]
        return Stepped(result.episodes, {number: env.episode_memory[number] for number in begun}, steps.sent())

    def instruct(self, moves: int, plan: EpisodePlan) -> bool | None:
        """Let the episodes that begin from now on have these parameters."""
        if self._moves != moves:
            return None
        self._env.instruct(plan)
        return True

    # Several steps in one job

    def assign(self, content: bytes) -> bool:
        """Accept a pickled `Assignment`; return False if it cannot be read here."""
        sent = _read(content)
        if sent is not None:
            self._gatherer = sent.begin(self._env, self._share)
        return sent is not None

    def gather(self, moves: int, seconds: float, actions: Tree | None = None) -> Rollout | Progress | None:
        """Take the next steps of the assignment, or those with these actions, leaves [T, n, …]."""
        if self._moves != moves or self._gatherer is None or self._steps is None:
            return None
        self._moves, self._gathering = None, moves
        self._gatherer.begin(self.shared, self._steps.obs, actions)
        return self.gather_on(moves, seconds)

    def gather_on(self, moves: int, seconds: float) -> Rollout | Progress | None:
        """Go on for so many seconds with the `gather` that is under way."""
        if self._gathering != moves or self._gatherer is None or self._steps is None:
            return None
        answer = self._gatherer.advance(seconds)
        if isinstance(answer, int):
            return Progress(answer)
        put_rows(self._steps.obs, ..., take_rows(answer.obs, -1))
        self._gathering, self._moves = None, moves + 1
        return answer

    def play(self, content: bytes) -> Any:
        """Begin a pickled `Game`; return as `play_on` does, or False if it cannot be read here."""
        self._moves = None
        sent = _read(content)
        if sent is None:
            return False
        self._game = sent.begin(self._env, self._share)
        return self.play_on(0.0)

    def play_on(self, seconds: float) -> Any:
        """Play for so many seconds; return the game's result, `Progress`, or None if there is no game."""
        answer = None if self._game is None else self._game.advance(seconds)
        return Progress(answer) if isinstance(answer, int) else answer

    def close(self) -> None:
        """Close the environments."""
        release(self._env, self._steps)

    def _arrays(self, block: str | None) -> StepArrays:
        """Return the arrays of a step, at first without content."""
        if self._steps is None:
            share, count = self._share, self._env.num_envs
            each = count // share.count
            rows = slice(share.first * each, share.first * each + count)
            total = share.total * each
            shared = None if block is None else StepArrays.attached(self._specs, total, block, rows)
            self._steps = shared or StepArrays.private(self._specs, count)
        return self._steps

    def _begun(self, moves: int, obs: Tree, begin: Callable[[], None]) -> Begun:
        self._moves = self._gathering = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            begin()
        self._moves = moves
        state = self._env.state()
        position: dict[str, Any] = {name: state[name] for name in _POSITION if name in state}
        said = [(str(each.message), each.category) for each in caught]
        return Begun(obs, position, self._env.episode_memory, said)


class EnvJob(NamedTuple):
    """A call of a method of one share. A tuple, since there is one for each step and worker: it is pickled fast."""

    share: int
    method: Callable[..., Any]
    """Of `EnvShare`. It is sent by its name."""
    arguments: tuple[Any, ...] = ()


class EnvTask(Task):
    """The task: holds shares of the environments, each built when it is first asked for.

    A worker has its own share, and those of others that were lost, where their jobs go to another worker.
    """

    def __init__(self, builder: EnvBuilder | MakeEnv, shares: list[Share]) -> None:
        self._builder, self._shares = builder, shares

    def title(self, worker: int) -> str:
        """Return the name of a worker in messages."""
        share = self._shares[worker]
        last = share.first + share.count - 1
        return f"worker {worker} of environment{f's {share.first} to {last}' if share.count > 1 else f' {last}'}"

    def setup(self, worker: int) -> None:
        """Build this worker's own share."""
        self._held: dict[int, EnvShare] = {}
        self._own = self._share(worker)

    def run(self, job: EnvJob, shared: Shared) -> Any:
        """Call the method."""
        share = self._share(job.share)
        share.shared = shared.arrays
        return job.method(share, *job.arguments)

    def call(self, moves: int) -> Stepped | tuple[()] | None:
        """Take a step with this worker's own share, whose arrays the driver shares; empty if no episode ended."""
        stepped = self._own.step(moves, None)
        return () if stepped is not None and not stepped.episodes else stepped

    def close(self) -> None:
        """Close the environments."""
        held: Mapping[int, EnvShare] = getattr(self, "_held", {})
        release(*held.values())

    def _share(self, number: int) -> EnvShare:
        if number not in self._held:
            self._held[number] = EnvShare(self._builder, self._shares[number])
        return self._held[number]


def shares_of(num_envs: int, workers: int) -> list[Share]:
    """Return the share of each worker: contiguous, nearly equal, and none without an environment."""
    count = min(num_envs, workers)
    edges = [num_envs * k // count for k in range(count + 1)]
    return [Share(a, b - a, num_envs) for a, b in pairwise(edges)]


def info_columns_of(builder: EnvBuilder | MakeEnv) -> tuple[str, ...]:
    """Return the numbers of `info` that are read."""
    return tuple(getattr(builder, "info_columns", ()))


def _read(content: bytes) -> Any:
    """Return what was pickled; None if it cannot be read here, such as a model that was defined in a notebook."""
    try:
        return pickle.loads(content)  # noqa: S301 — from the driver
    except (AttributeError, ImportError):
        return None
