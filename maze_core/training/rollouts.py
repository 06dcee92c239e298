"""Rollouts: episodes of any policy, by number, here or in workers, recorded and filmed as they are played."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from maze_core.acting.network import NetworkAgent, NoiseByRow
from maze_core.acting.rule import RuleAgent
from maze_core.config.run import EvaluationConfig
from maze_core.data.trajectories_writer import TrajectoryWriter, check_free
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.vector import Episode
from maze_core.errors import RunError
from maze_core.plugins import discovery
from maze_core.plugins.manager import to_stderr
from maze_core.policies.base import build_policy_plugin
from maze_core.progress import Report
from maze_core.runners.dev import DevConfig, DevRunner
from maze_core.training.endless import WAY_OUT, episodes_cut, told_of_cut
from maze_core.training.episodes import play
from maze_core.training.process_state import graceful_interrupts, torch_threads
from maze_core.training.run_dir import versions
from maze_core.training.statistics import summarize
from maze_core.training.video import open_studio

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.config.base import PluginConfig
    from maze_core.data.trajectories import Trajectory
    from maze_core.envs.vector import VectorEnv
    from maze_core.models.policy import Policy
    from maze_core.plugins.discovery import Loader
    from maze_core.runners.base import Runner
    from maze_core.runners.workers import Shared, WorkerPool
    from maze_core.training.episodes import AgentOf
    from maze_core.training.run import Run

LANES = 8
"""Episodes played side by side, at most."""

Played = tuple[int, "Trajectory"]
"""An episode's number and what happened in it."""


class Player(Protocol):
    """What plays; can be sent to the process in which it does."""

    def __call__(self, observation_space: Space[Any], action_space: Space[Any]) -> AgentOf:
        """Return what makes agents for these spaces."""

    def about(self) -> dict[str, Any]:
        """Return what acts, as plain data."""


@dataclass(frozen=True)
class TrainedPolicy:
    """A network as a rollout's policy."""

    policy: Policy
    deterministic: bool
    origin: dict[str, Any]
    """The run it was trained in."""

    def __call__(self, observation_space: Space[Any], action_space: Space[Any]) -> AgentOf:
        """Return what makes agents; the spaces are those the network was built for."""
        policy = self.policy.eval()
        return lambda rngs: NetworkAgent(policy, None if self.deterministic else NoiseByRow(rngs))

    def about(self) -> dict[str, Any]:
        """Return the run it was trained in, and how it acts."""
        return {**self.origin, "deterministic": self.deterministic}

    def __getstate__(self) -> dict[str, Any]:
        # As plain bytes: what multiprocessing does with tensors can be received by one process only.
        return {**self.__dict__, "policy": pickle.dumps(self.policy)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, policy=pickle.loads(state["policy"]))  # noqa: S301 — from the driver process


@dataclass(frozen=True)
class PluginPolicy:
    """A policy plugin as a rollout's policy."""

    config: PluginConfig
    plugin: type[Any]

    def __call__(self, observation_space: Space[Any], action_space: Space[Any]) -> AgentOf:
        """Return what makes agents, with one policy for all. Errors as for `build_policy_plugin`."""
        policy = build_policy_plugin(self.config, observation_space, action_space, lambda kind, name: self.plugin)
        return lambda rngs: RuleAgent(policy, rngs, action_space)

    def about(self) -> dict[str, Any]:
        """Return its configuration."""
        return self.config.model_dump(mode="json")


@dataclass
class RolloutTask:
    """Plays blocks of episodes: the task of a rollout's workers, and what happens in this process without them."""

    builder: EnvBuilder
    player: Player
    seed: int
    lanes: int = LANES
    """Environments stepped side by side. The result may depend on it in the last digits; on the workers it does not."""
    video: Path | None = None
    """A folder to film every episode in."""

    def setup(self, worker: int) -> None:
        """Build environments and what plays."""
        self._studio = None if self.video is None else open_studio(self.builder, self.video)
        self._env: VectorEnv | None = (
            DevRunner(DevConfig()).vector_env(self.builder, self.lanes)
            if self._studio is None
            else self._studio.vector_env(self.lanes)
        )
        self._agent_of = self.player(self._env.observation_space, self._env.action_space)

    def play(self, block: tuple[int, int], stopped: Callable[[], bool] = lambda: False) -> Iterator[Played]:
        """Play the block (first, count), at most `lanes` episodes, and give them in order as they end."""
        first, count = block
        if self._env is None:
            raise RunError("the environments are closed")
        if self._studio is not None:
            self._studio.film(first, count)
        yield from play(self._env, self._agent_of, self.seed, first, count, stopped)

    def run(self, job: tuple[int, int], shared: Shared) -> list[Played]:
        """Play a block to its end, in a worker."""
        return list(self.play(job))

    def state(self) -> dict[str, Any]:
        """Nothing outlasts a block."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Nothing to take up."""

    def close(self) -> None:
        """Close environments and films."""
        env, self._env = getattr(self, "_env", None), None
        if env is not None:
            env.close()


def task_of_run(run: Run, seed: int, deterministic: bool | None = None, video: Path | None = None) -> RolloutTask:
    """Rollouts of a run's policy as it is now; `deterministic` None: as its evaluation is configured."""
    chosen = run.config.evaluation.deterministic if deterministic is None else deterministic
    origin = {"run": str(run.run_dir), "algorithm": run.config.algorithm.name, "epoch": run.epoch}
    policy = TrainedPolicy(run.policy, chosen, {**origin, "env_steps": run.env_steps})
    return RolloutTask(run.env_builder("rollout"), policy, seed, video=video)


def task_of_plugin(
    policy: PluginConfig,
    env: PluginConfig,
    wrappers: tuple[PluginConfig, ...],
    seed: int,
    video: Path | None = None,
    load: Loader = discovery.load,
) -> RolloutTask:
    """Rollouts of a policy plugin in an environment."""
    builder = EnvBuilder(env, wrappers, seed, "rollout", load, EvaluationConfig().max_episode_steps)
    return RolloutTask(builder, PluginPolicy(policy, load("policy", policy.name)), seed, video=video)


def source_of(task: RolloutTask) -> dict[str, Any]:
    """Where the episodes of a task come from, as plain data: the policy, the environment, seed and versions."""
    return {
        "policy": task.player.about(),
        "env": task.builder.env.model_dump(mode="json"),
        "wrappers": [wrapper.model_dump(mode="json") for wrapper in task.builder.wrappers],
        "seed": task.seed,
        "versions": versions([]),
    }


def roll_out(
    task: RolloutTask,
    episodes: int,
    *,
    workers: int | None = None,
    runner: PluginConfig | None = None,
    record: Path | None = None,
    report: Report | None = None,
    watch: Callable[[Trajectory], object] | None = None,
    load: Loader = discovery.load,
) -> list[Episode]:
    """Play episodes 0 … episodes - 1, record them as they come, and say what each returned.

    The first interrupt ends it early with what was played so far.

    Args:
        task: what is played.
        episodes: how many.
        workers: how many play; None: this process, or as many workers as `runner` thinks fit.
        runner: starts the workers; None: the local one, for several.
        record: a new folder for the trajectories.
        report: told how many of how many episodes are done.
        watch: given every episode in its turn.
        load: how the runner is found.

    Raises:
        ConfigError: the environment or the policy cannot be built, or does not fit.
        TrajectoryError: the folder to record to holds something already.
        RunError: an environment or a worker failed, or it was interrupted before the first episode ended.
    """
    task = replace(task, lanes=min(task.lanes, episodes))
    blocks = [(first, min(task.lanes, episodes - first)) for first in range(0, episodes, task.lanes)]
    results: list[Episode] = []
    stop: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(torch_threads(1))
        stack.enter_context(graceful_interrupts(stop.append))
        pool = _pool(task, len(blocks), workers, runner, load)
        stack.callback((pool or task).close)
        played = _played(task, blocks, pool, lambda: bool(stop))
        for number, trajectory in played if record is None else _recorded(played, task, record, stack):
            if watch is not None:
                watch(trajectory)
            results.append(Episode(0, number, trajectory.episode_return, len(trajectory)))
            if report is not None:
                report(len(results), episodes)
    if not results:
        raise RunError(f"interrupted by {stop[0]} before the first episode ended")
    limit = task.builder.max_episode_steps
    if cut := episodes_cut(results, limit):
        to_stderr(f"note: {told_of_cut(cut, len(results), limit)}. {WAY_OUT}.")
    return results


def statistics_of(episodes: list[Episode], limit: int | None = None) -> dict[str, float]:
    """Returns, lengths and counts by name, such as `return_mean`; `limit`: the step at which episodes were cut."""
    found = {name.partition("/")[2]: value for name, value in summarize(episodes, "rollout").items()}
    cut = episodes_cut(episodes, limit)
    return {**found, "episodes_cut": float(cut)} if cut else found


def _recorded(played: Iterator[Played], task: RolloutTask, folder: Path, stack: ExitStack) -> Iterator[Played]:
    """The episodes, each recorded before it is passed on; `stack` closes the recording."""
    check_free(folder)
    writer: TrajectoryWriter | None = None
    for number, trajectory in played:
        # Only now: what fails before the first episode leaves no folder behind.
        writer = writer or stack.enter_context(_writer(task, folder))
        writer.add(trajectory)
        yield number, trajectory


def _writer(task: RolloutTask, folder: Path) -> TrajectoryWriter:
    env = task.builder(0)
    try:
        return TrajectoryWriter(folder, env.observation_space, env.action_space, source_of(task))
    finally:
        env.close()


def _pool(
    task: RolloutTask, blocks: int, workers: int | None, config: PluginConfig | None, load: Loader
) -> WorkerPool | None:
    """Workers that play blocks, at most one for each; None where this process does."""
    if config is None:
        if workers in (None, 1):
            return None
        config = load("runner", "local").Config(name="local")
    runner: Runner = load("runner", config.name)(config)
    return runner.workers(task, min(workers or runner.default_workers, blocks))


def _played(
    task: RolloutTask, blocks: list[tuple[int, int]], pool: WorkerPool | None, stopped: Callable[[], bool]
) -> Iterator[Played]:
    """Episodes in order, from workers or from this process."""
    if pool is not None:
        yield from _in_workers(pool, blocks, stopped)
        return
    task.setup(0)
    for block in blocks:
        if stopped():
            return
        yield from task.play(block, stopped)


def _in_workers(pool: WorkerPool, blocks: list[tuple[int, int]], stopped: Callable[[], bool]) -> Iterator[Played]:
    """The episodes in order. A few blocks are played ahead, so that results that wait for their turn stay few."""
    waiting: dict[int, list[Played]] = {}
    jobs: dict[int, int] = {}
    submitted = 0
    for following in range(len(blocks)):
        while submitted < min(following + 2 * pool.num_workers, len(blocks)):
            jobs[pool.submit(blocks[submitted])] = submitted
            submitted += 1
        while following not in waiting:
            result = None if stopped() else pool.collect(timeout=0.2)
            if stopped():
                for block in sorted(waiting):
                    yield from waiting[block]
                return
            if result is not None:
                waiting[jobs.pop(result.job)] = result.value
        yield from waiting.pop(following)
