"""What workers do that collect: each steps its share of the environments with a copy of the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from maze_core.base.tree import copy_tree, subtree, take_rows
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.network import NetworkAgent
from maze_core.collect.agents.noise_plan import NoisePlan, PlannedExploration, PlannedNoise
from maze_core.collect.agents.worker_agent import WorkerAgent
from maze_core.collect.stepper import Stepper
from maze_core.data.batch import to_tensors
from maze_core.envs.spaces import allocate, space_specs
from maze_onpolicy.collect.parameter_arrays import acting_arrays
from maze_onpolicy.collect.sampler import RolloutSink, Sampler

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.exploration import Change
    from maze_core.collect.pools.workers import Arrays
    from maze_core.data.rollout import Rollout
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.vector import Share
    from maze_core.models.policy import Policy

MEMORY = "#memory/"
"""Where the memory of a policy is among the shared arrays."""


@dataclass(frozen=True, slots=True)
class CollectAssignment:
    """What a worker has to know to collect rollouts with its environments."""

    policy: Policy
    change: Change | None
    """What exploration does to the most likely actions; None: actions are samples of the policy."""
    seeds: EpisodeSeeds
    n_steps: int
    threads: int
    """Torch's threads, on which the last digits of large products may depend."""

    def begin(self, env: SerialVectorEnv, share: Share) -> Gatherer:
        """Return what collects with a share of the environments."""
        return Gatherer(self, env, share)


class Gatherer:
    """Collects the rollouts of a share of the environments, all of whose chance was drawn by the driver."""

    def __init__(self, assignment: CollectAssignment, env: SerialVectorEnv, share: Share) -> None:
        torch.set_num_threads(assignment.threads)
        policy, change = assignment.policy, assignment.change
        self._env, self._share, self._seeds = env, share, assignment.seeds
        self._noise = PlannedNoise()
        self._exploration = None if change is None else PlannedExploration(change)
        self._parameters = acting_arrays(policy)
        self._sampler = Sampler(
            policy,
            env,
            assignment.n_steps,
            assignment.seeds,
            self._noise,
            exploration=self._exploration,
            wrapped=self._of_share,
            rows=share.total,
            complete=True,
        )
        self._given: _GivenSteps | None = None

    def _of_share(self, network: Agent) -> Agent:
        """Return an agent that acts for the share alone."""
        if not isinstance(network, NetworkAgent):
            raise TypeError(f"a network acts in a worker, not {type(network).__name__}")
        self._memory = network.memory
        return WorkerAgent(network, self._share)

    def begin(self, arrays: Arrays, obs: Tree, actions: Tree | None = None) -> None:
        """Begin the next steps from these observations, leaves [n, …].

        `arrays`: the parameters, what was drawn, and what the policy remembers. `actions`: those to take instead of the
        policy's, leaves [T, n, …].
        """
        self._given = None if actions is None else _GivenSteps(self._env, self._seeds, obs, actions)
        if self._given is not None:
            return
        for name, leaf in self._parameters.items():
            leaf[...] = arrays[name]
        plan = NoisePlan.among(arrays)
        self._noise.take(plan.noise)
        if self._exploration is not None:
            self._exploration.take(plan.explored)
        if self._memory is not None:
            self._memory.replace(to_tensors(copy_tree(subtree(arrays, MEMORY))))
        self._sampler.stand(obs)
        self._sampler.begin()

    def advance(self, seconds: float) -> Rollout | int:
        """Go on for so many seconds; return the rollout, or the number of steps so far."""
        if self._given is not None:
            return self._given.advance(seconds)
        if not self._sampler.advance(seconds):
            return self._sampler.steps
        rollout = self._sampler.finish()
        rollout.carry = list(self._env.episode_memory)
        if self._memory is not None:
            own = slice(self._share.first, self._share.first + self._share.count)
            rollout.after = take_rows(self._memory.snapshot(self._share.total), own)
        return rollout


class _GivenSteps:
    """Takes steps with actions that were chosen elsewhere, leaves [T, n, …]."""

    def __init__(self, env: SerialVectorEnv, seeds: EpisodeSeeds, obs: Tree, actions: Tree) -> None:
        steps = len(next(iter(actions.values())))
        self._env, self._steps, self._agent = env, steps, _Given(actions)
        arrays = allocate(space_specs(env.observation_space, "observation"), (steps + 1, env.num_envs))
        for key, leaf in arrays.items():
            leaf[0] = obs[key]
        self._sink = RolloutSink(arrays, copy_tree(actions), complete=True)
        self._stepper = Stepper(env, seeds)
        self._stepper.stand(take_rows(arrays, 0))

    def advance(self, seconds: float) -> Rollout | int:
        """Go on for so many seconds; return the rollout, or the number of steps so far."""
        self._stepper.advance(self._agent, self._sink, self._steps - self._sink.steps, seconds)
        if self._sink.steps < self._steps:
            return self._sink.steps
        self._sink.rollout.carry = list(self._env.episode_memory)
        return self._sink.rollout


class _Given(Agent):
    """Takes the actions that it was given, step by step."""

    def __init__(self, actions: Tree) -> None:
        self._actions, self._step = actions, -1

    def act(self, obs: Tree) -> Choice:
        """Return the actions of the next step."""
        self._step += 1
        actions = take_rows(self._actions, self._step)
        return Choice(actions, actions)
