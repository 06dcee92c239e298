"""Plays numbered episodes of any policy, in this process or in workers; records and films them on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from maze_core import EnvBuilder, NetworkAgent, RunError, Task
from maze_core.base.interruption import Preempted, exit_code_of, graceful_interrupts, pass_on
from maze_core.base.process_state import torch_threads
from maze_core.base.tolerant_output import to_stderr, tolerant_output
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.collect.pools.checked_runner import CheckedRunner
from maze_core.collect.pools.dev import DevConfig, DevRunner
from maze_core.envs.in_process import in_turn
from maze_core.envs.masks import MaskCheck
from maze_core.envs.vector import Episode
from maze_core.envs.wrappers import forgotten
from maze_core.plugins import discovery
from maze_core.plugins.closing import releasing
from maze_core.plugins.config.run import EvaluationConfig
from maze_core.run.episodes.run_evaluation import WAY_OUT, cut_message, episodes_cut
from maze_core.run.episodes.statistics import summarize
from maze_core.run.saved.run_dir import versions
from maze_recordings.episode_recorder import Played, play
from maze_recordings.films import open_recorder
from maze_recordings.noise_by_row import NoiseByRow
from maze_recordings.progress import Report
from maze_recordings.writer import TrajectoryWriter, check_free

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import PluginConfig, Policy, Run, Shared, Trajectory, VectorEnv
    from maze_core.collect.agents.looking_ahead import PlannerSource, Planning
    from maze_core.collect.pools.workers import WorkerPool
    from maze_core.envs.wrappers import Memory
    from maze_recordings.episode_recorder import AgentOf

NUM_ENVS = 8
"""Most episodes played in parallel."""
_TO_STOP = 2.0
"""Seconds that a step, or the start of workers, has after SIGTERM before it is given up."""


class Player(Protocol):
    """Builds the agents that play; it can be sent to another process."""

    def __call__(self, observation_space: Space[Any], action_space: Space[Any]) -> AgentOf:
        """Return a function that builds agents for these spaces."""

    def about(self) -> dict[str, Any]:
        """Return a description of the policy as plain data."""

    def planning(self, builder: EnvBuilder) -> Planning | None:
        """Return what looks ahead in the environments of a builder; None: nothing does."""


@dataclass(frozen=True)
class TrainedPolicy:
    """Plays with a trained network."""

    policy: Policy
    deterministic: bool
    origin: dict[str, Any]
    """The run in which it was trained."""
    planners: PlannerSource | None = None
    """Looks ahead with the network; None: it acts alone."""

    def __call__(self, observation_space: Space[Any], action_space: Space[Any]) -> AgentOf:
        """Return a function that builds agents; the network was built for these spaces."""
        policy, masks = self.policy.eval(), MaskCheck(observation_space, action_space)
        return lambda rngs: NetworkAgent(policy, None if self.deterministic else NoiseByRow(rngs), masks=masks)

    def about(self) -> dict[str, Any]:
        """Return the run in which it was trained, and how it acts."""
        found = {**self.origin, "deterministic": self.deterministic}
        if self.planners is not None:
            found["looks_ahead"] = list(self.planners.names)
        return found

    def planning(self, builder: EnvBuilder) -> Planning | None:
        """Return what looks ahead in the environments of a builder."""
        return None if self.planners is None else self.planners.planning(self.policy, "rollout", builder)


@dataclass(frozen=True)
class PluginPolicy:
    """Plays with a policy plugin."""

    config: PluginConfig

    def __call__(self, observation_space: Space[Any], action_space: Space[Any]) -> AgentOf:
        """Return a function that builds agents which share one policy. Errors as for `build_policy_plugin`."""
        policy = build_policy_plugin(self.config, observation_space, action_space)
        return lambda rngs: RuleAgent(policy, rngs, action_space)

    def about(self) -> dict[str, Any]:
        """Return the policy's configuration."""
        return self.config.model_dump(mode="json")

    def planning(self, builder: EnvBuilder) -> None:
        """Return None: the plugin acts alone."""


@dataclass
class RolloutTask(Task):
    """Plays blocks of episodes, in a worker or in this process."""

    builder: EnvBuilder
    player: Player
    seed: int
    num_envs: int = NUM_ENVS
    """Environments stepped in parallel. The last digits of results may depend on it, but not on the workers."""
    video: Path | None = None
    """A folder for films of every episode."""
    memory: Sequence[Memory] = ()
    """What wrappers remember before each episode, in turn; empty: what new ones do."""

    def setup(self, worker: int) -> None:
        """Build the environments and the agent."""
        self._films = None if self.video is None else open_recorder(self.builder, self.video)
        self._env: VectorEnv | None = (
            DevRunner(DevConfig()).vector_env(self.builder, self.num_envs)
            if self._films is None
            else self._films.vector_env(self.num_envs)
        )
        self._agent_of = self.player(self._env.observation_space, self._env.action_space)
        self._memory = self.memory or self._env.memory()
        self._planning = self.player.planning(self.builder)

    def play(self, block: tuple[int, int], stopped: Callable[[], bool] = lambda: False) -> Iterator[Played]:
        """Play the block (first, count), at most `num_envs` episodes, and yield them in order as they end."""
        first, count = block
        if self._env is None:
            raise RunError("the environments are closed")
        if self._films is not None:
            self._films.film(first, count)
        yield from play(self._env, self._agent_of, self.seed, first, count, stopped, self._memory, self._planning)

    def run(self, job: tuple[int, int], shared: Shared) -> list[Played]:
        """Play a whole block, in a worker."""
        return list(self.play(job))

    def close(self) -> None:
        """Close environments and films."""
        env, self._env = getattr(self, "_env", None), None
        if env is not None:
            env.close()


def task_of_run(
    run: Run,
    seed: int,
    deterministic: bool | None = None,
    video: Path | None = None,
    *,
    look_ahead: bool = True,
) -> RolloutTask:
    """Return a task that plays a run's current policy; `deterministic` None: as configured for evaluation.

    `look_ahead`: with the run's planner, if it has one.
    """
    chosen = run.config.evaluation.deterministic if deterministic is None else deterministic
    origin = {"run": str(run.run_dir), "algorithm": run.config.algorithm.name, "epoch": run.epoch}
    planners = run.planners.source if look_ahead and run.planners is not None else None
    policy = TrainedPolicy(run.policy, chosen, {**origin, "env_steps": run.env_steps}, planners)
    return RolloutTask(run.env_builder("rollout"), policy, seed, video=video, memory=run.wrapper_memory())


def task_of_plugin(
    policy: PluginConfig,
    env: PluginConfig,
    wrappers: tuple[PluginConfig, ...],
    seed: int,
    video: Path | None = None,
) -> RolloutTask:
    """Return a task that plays a policy plugin in an environment."""
    builder = EnvBuilder(
        env, wrappers, seed=seed, purpose="rollout", max_episode_steps=EvaluationConfig().max_episode_steps
    )
    trial = replace(builder, purpose="trial")
    if not builder.several_agents and (note := forgotten(lambda: trial.single(0))) is not None:
        to_stderr(f"note: {note}. Here the episodes depend on those before them, and on --workers.")
    return RolloutTask(builder, PluginPolicy(policy), seed, video=video)


def rollout_of_run(
    run: Run,
    episodes: int,
    *,
    deterministic: bool | None,
    record: Path | None,
    wrapped_rewards: bool,
    workers: int | None,
    runner: PluginConfig | None,
    seed: int,
    look_ahead: bool,
) -> list[Trajectory]:
    """Play episodes with a run's current policy; return their trajectories. Arguments as of `RunContext.rollout`.

    A signal ends it with `KeyboardInterrupt`; the episodes that were recorded by then stay.
    """
    played: list[Trajectory] = []
    stop: list[str] = []
    try:
        roll_out(
            task_of_run(run, seed, deterministic, look_ahead=look_ahead),
            episodes,
            workers=workers,
            runner=runner,
            record=record,
            wrapped_rewards=wrapped_rewards,
            watch=played.append,
            stop=stop,
        )
    finally:
        if stop:
            pass_on(stop[-1])
    return played


def source_of(task: RolloutTask) -> dict[str, Any]:
    """Return the origin of a task's episodes as plain data: policy, environment, seed and versions."""
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
    wrapped_rewards: bool = False,
    report: Report | None = None,
    watch: Callable[[Trajectory], object] | None = None,
    stop: list[str] | None = None,
) -> list[Episode]:
    """Play episodes 0 … episodes - 1, record them as they are played, and return their statistics in order.

    The first Ctrl-C or SIGTERM ends it early with the episodes played so far.

    Args:
        task: plays the episodes.
        episodes: number of episodes.
        workers: number of workers; None: this process, or as many workers as `runner` chooses.
        runner: starts the workers; None: the local runner, if there are several.
        record: a new folder for the trajectories.
        wrapped_rewards: record the rewards after the wrappers, too.
        report: called with the number of finished episodes and of all.
        watch: called with every episode in order.
        stop: receives what interrupted it, `Ctrl-C` or `SIGTERM`; nothing is played once it is not empty.

    Raises:
        ConfigError: the environment or the policy cannot be built, or does not fit.
        TrajectoryError: the folder `record` is not empty.
        RunError: an environment or a worker failed, or it was interrupted before the first episode ended.
    """
    task = replace(task, num_envs=min(task.num_envs, episodes))
    blocks = [(first, min(task.num_envs, episodes - first)) for first in range(0, episodes, task.num_envs)]
    results: list[Episode] = []
    stop = [] if stop is None else stop
    with ExitStack() as stack:
        stack.enter_context(torch_threads(1))
        stack.enter_context(tolerant_output())
        preemption = stack.enter_context(graceful_interrupts(stop.append, _TO_STOP))
        try:
            pool = _pool(task, len(blocks), workers, runner)
            stack.enter_context(releasing(pool or task))
            played = _played(task, blocks, pool, lambda: bool(stop))
            for episode in played if record is None else _recorded(played, task, record, wrapped_rewards, stack):
                if watch is not None:
                    for trajectory in episode.trajectories:
                        watch(trajectory)
                results.append(episode.summary)
                if report is not None:
                    report(len(results), episodes)
        except Preempted:  # in the middle of a step: what was played before counts
            pass
        finally:
            preemption.settle()
    if not results:
        failure = RunError(f"interrupted by {stop[0]} before the first episode ended")
        failure.exit_code = exit_code_of(stop[-1])
        raise failure
    limit = task.builder.max_episode_steps
    if cut := episodes_cut(results, limit):
        to_stderr(f"note: {cut_message(cut, len(results), limit)}. {WAY_OUT}.")
    return results


def statistics_of(episodes: list[Episode], limit: int | None = None) -> dict[str, float]:
    """Return statistics by name, such as `return_mean`; `limit`: the step at which episodes are truncated."""
    found = {name.partition("/")[2]: value for name, value in summarize(episodes, "rollout").items()}
    cut = episodes_cut(episodes, limit)
    return {**found, "episodes_cut": float(cut)} if cut else found


def _recorded(
    played: Iterator[Played], task: RolloutTask, folder: Path, wrapped_rewards: bool, stack: ExitStack
) -> Iterator[Played]:
    """Record each episode, then yield it; `stack` closes the recording."""
    check_free(folder)
    writer: TrajectoryWriter | None = None
    for episode in played:
        # Only now, so that a failure before the first episode leaves no folder behind.
        writer = writer or stack.enter_context(_writer(task, folder, wrapped_rewards))
        for trajectory in episode.trajectories:
            writer.add(trajectory)
        yield episode


def _writer(task: RolloutTask, folder: Path, wrapped_rewards: bool) -> TrajectoryWriter:
    env = in_turn(task.builder, 1)
    try:
        spaces = env.observation_space, env.action_space
        return TrajectoryWriter(folder, *spaces, source_of(task), wrapped_rewards=wrapped_rewards)
    finally:
        env.close()


def _pool(task: RolloutTask, blocks: int, workers: int | None, config: PluginConfig | None) -> WorkerPool | None:
    """Return workers that play blocks, at most one per block; None if this process plays."""
    if config is None:
        if workers in (None, 1):
            return None
        config = discovery.load("runner", "local").Config(name="local")
    return CheckedRunner(config).workers(task, workers, most=blocks)


def _played(
    task: RolloutTask, blocks: list[tuple[int, int]], pool: WorkerPool | None, stopped: Callable[[], bool]
) -> Iterator[Played]:
    """Yield episodes in order, from workers or from this process."""
    if pool is not None:
        yield from _in_workers(pool, blocks, stopped)
        return
    task.setup(0)
    for block in blocks:
        if stopped():
            return
        yield from task.play(block, stopped)


def _in_workers(pool: WorkerPool, blocks: list[tuple[int, int]], stopped: Callable[[], bool]) -> Iterator[Played]:
    """Yield the episodes in order. Only a few blocks are played ahead, so few results wait for their turn."""
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
