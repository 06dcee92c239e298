"""Rollouts of tasks, each with parameters of its own, on workers or in this process: what meta-learning learns from."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from maze_core import ConfigError, EpisodeSeeds, NetworkAgent, Purpose, Shared, Task, torch_generator
from maze_core.envs.checks import naming
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.wrappers import remembering
from maze_core.plugins.closing import release
from maze_onpolicy.collect.parameter_arrays import load_arrays
from maze_onpolicy.collect.sampler import Sampler

if TYPE_CHECKING:
    from maze_core import EnvBuilder, Policy, Rollout
    from maze_core.collect.pools.workers import Arrays

_KEPT = 4
# Tasks by argument whose environments stay built: as many as there are where the list is short.


class TaskJob(NamedTuple):
    """A rollout of one task, in several environments."""

    task: Any
    """What `Tasks.draw` returned."""
    parameters: Arrays
    """Parameters and buffers of the policy that acts, as `state_arrays` returns them."""
    path: tuple[int, ...]
    """Names the random numbers of this job: another path plays other episodes."""


@dataclass
class TaskRollouts(Task):
    """The task of workers that play `TaskJob`s. A rollout depends on its job alone, not on the worker.

    Without workers, call `setup(0)`, then `run`, and `close` at the end.
    """

    builder: EnvBuilder
    """`run.env_builder("training")`."""
    policy: Policy
    """The run's policy; it is copied."""
    seed: int
    """The run's."""
    stream: int
    """Separates the random numbers of these rollouts from those of other plugins."""
    num_envs: int
    """Environments of a task."""
    steps: int
    """Steps of a rollout."""
    by_argument: bool
    """True where a task is arguments of the constructor, False where it is for `set_task`."""

    def setup(self, worker: int) -> None:
        """Copy the policy: its parameters are those of a job."""
        self._policy = copy.deepcopy(self.policy).cpu()
        self._envs: dict[str, SerialVectorEnv] = {}

    def run(self, job: TaskJob, shared: Shared | None = None) -> Rollout:
        """Begin episodes of a task in all of its environments, and return a rollout with the job's parameters."""
        load_arrays(self._policy, job.parameters)
        seeds = EpisodeSeeds(self.seed, Purpose.PLUGIN, (self.stream, 1, *job.path))
        noise = torch_generator(self.seed, Purpose.PLUGIN, self.stream, 2, *job.path)
        network = NetworkAgent.sampling(self._policy, self.num_envs, noise)
        return Sampler(network, self._envs_of(job.task), self.steps, seeds).collect()

    def close(self) -> None:
        """Close the environments."""
        envs, self._envs = getattr(self, "_envs", {}), {}
        release(*envs.values())

    def check(self, task: Any) -> None:
        """Build an environment of a task, so that errors come before the first step.

        Raises:
            ConfigError: it cannot be built with these arguments, has other spaces with them, or a wrapper keeps state
                across episodes.
            RunError: `set_task` failed.
        """
        alone = replace(self, num_envs=1)
        alone.setup(0)
        try:
            alone._envs_of(task)
        finally:
            alone.close()

    def _envs_of(self, task: Any) -> SerialVectorEnv:
        if self.by_argument:
            return self._built(task)
        envs = self._built({})
        for index, env in enumerate(envs.envs):
            with naming(f"set_task of environment {index}"):
                env.get_wrapper_attr("set_task")(task)
        return envs

    def _built(self, arguments: Mapping[str, Any]) -> SerialVectorEnv:
        key = json.dumps(arguments, sort_keys=True)
        if key not in self._envs:
            if len(self._envs) == _KEPT:
                self._envs.pop(next(iter(self._envs))).close()
            self._envs[key] = envs = SerialVectorEnv(self.builder.with_arguments(arguments), self.num_envs)
            for name in ("observation_space", "action_space"):
                if getattr(envs, name) != getattr(self.policy, name):
                    raise ConfigError(f"with the task {key} the environment has another {name}", "algorithm.tasks")
            if (wrapper := remembering(envs.envs[0])) is not None:
                raise ConfigError(
                    f"{wrapper} keeps state across episodes, and the environments of a task begin anew",
                    "wrappers",
                    "Next: remove this wrapper. model.normalize_observations=true normalises in the policy.",
                )
        return self._envs[key]
