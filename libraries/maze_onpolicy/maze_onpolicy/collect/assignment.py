"""What workers do that collect: each steps its share of the environments with a copy of the policy."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from maze_core import NetworkAgent, subtree, take_rows, to_tensors
from maze_core.base.tree import copy_tree, put_rows
from maze_core.collect.agents.agent import Agent, Choice, Exploration
from maze_core.collect.agents.network import NoisePlan
from maze_core.collect.agents.worker_agent import WorkerAgent
from maze_core.collect.stepper import Stepper
from maze_onpolicy.collect.parameter_arrays import acting_arrays
from maze_onpolicy.collect.rollout_sink import RolloutSink, allocate_samples
from maze_onpolicy.collect.sampler import fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from maze_core import EpisodeSeeds, Policy, Rollout, TensorTree, Tree
    from maze_core.collect.agents.agent import Change
    from maze_core.collect.pools.workers import Arrays
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.vector import Share

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

    def begin(self, env: SerialVectorEnv, share: Share) -> ShareCollector:
        """Return what collects with a share of the environments."""
        return ShareCollector(self, env, share)


class PlannedNoise:
    """Noise that the driver drew, for the steps that the agent expects next."""

    def __init__(self) -> None:
        self._noise: Tree = {}

    def take(self, noise: Tree) -> None:
        """Take the noise of the next steps, leaves [T, N, …]."""
        self._noise = noise

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise that was taken."""
        return to_tensors(copy_tree(self._noise))

    def state(self) -> dict[str, Any]:
        """Return nothing: the random state is the driver's."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""


class PlannedExploration(Exploration):
    """Changes actions by what the driver drew, step by step."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._steps: Iterator[Tree] = iter(())

    def take(self, explored: Tree) -> None:
        """Take what was drawn for the next steps, leaves [T, N, …]."""
        leaves = zip(*explored.values(), strict=True)
        self._steps = (dict(zip(explored, step, strict=True)) for step in leaves)

    def explore(self, obs: Tree, choice: Choice) -> Choice:
        """Return the actions to take in the next of these steps."""
        return self._change(choice, next(self._steps))


class ShareCollector:
    """Collects the rollouts of a share of the environments. All that chance decides was drawn by the driver."""

    def __init__(self, assignment: CollectAssignment, env: SerialVectorEnv, share: Share) -> None:
        torch.set_num_threads(assignment.threads)
        policy, change = assignment.policy, assignment.change
        self._env, self._share = env, share
        self._noise = PlannedNoise()
        self._exploration = None if change is None else PlannedExploration(change)
        self._parameters = acting_arrays(policy)
        # It computes the rows of all shares, since the last digits of a product depend on their number.
        network = (
            NetworkAgent.sampling(policy, share.total, self._noise)
            if self._exploration is None
            else NetworkAgent.exploring(policy, share.total, self._exploration)
        )
        self._memory, self._stepper = network.memory, Stepper(env, assignment.seeds)
        sink = RolloutSink(env, allocate_samples(network, env, assignment.n_steps), complete=True)
        self._own = WorkerAgent(network, share), sink
        # Who acts in the rollout that is under way, and what takes its steps.
        self._agent: Agent
        self._agent, self._sink = self._own

    def begin(self, arrays: Arrays, obs: Tree, actions: Tree | None = None) -> None:
        """Begin the next steps from these observations, leaves [n, …].

        `arrays`: the parameters, what was drawn, and what the policy remembers. `actions`: those to take instead of the
        policy's, leaves [T, n, …].
        """
        if actions is None:
            self._agent, self._sink = self._own
            self._take_over(arrays)
        else:
            self._agent, self._sink = GivenActions(actions), RolloutSink(self._env, copy_tree(actions), complete=True)
        put_rows(self._sink.current, slice(None), obs)
        self._stepper.continue_from(self._sink.carry(), [])  # the driver's agent has begun the episodes
        self._agent.refresh()
        self._agent.expect(len(self._sink.rollout.rewards))

    def _take_over(self, arrays: Arrays) -> None:
        """Let the policy be as it is in the driver."""
        for name, leaf in self._parameters.items():
            leaf[...] = arrays[name]
        plan = NoisePlan.among(arrays)
        self._noise.take(plan.noise)
        if self._exploration is not None:
            self._exploration.take(plan.explored)
        if self._memory is not None:
            self._memory.replace(to_tensors(copy_tree(subtree(arrays, MEMORY))))

    def advance(self, seconds: float) -> Rollout | int:
        """Go on for so many seconds, at least one step; return the rollout, or the number of steps so far."""
        sink, deadline, at_once = self._sink, time.monotonic() + seconds, 1
        n_steps = len(sink.rollout.rewards)
        with torch.inference_mode():
            while sink.steps < n_steps:
                fill(sink, self._stepper, self._agent, min(at_once, n_steps - sink.steps))
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                # Looking at the clock costs as much as a step of a quick environment.
                at_once = 2 * at_once if left > 0.9 * seconds else 1
        if sink.steps < n_steps:
            return sink.steps
        sink.check_masks(n_steps)
        return self._finished(sink.rollout)

    def _finished(self, rollout: Rollout) -> Rollout:
        """Return a rollout with what its environments and the policy remember after it."""
        rollout.carry = list(self._env.episode_memory)
        if self._memory is not None:
            own = slice(self._share.first, self._share.first + self._share.count)
            rollout.after = take_rows(self._memory.snapshot(self._share.total), own)
        return rollout


class GivenActions(Agent):
    """Takes actions that were chosen before, step by step: leaves [T, n, …], in environment units."""

    def __init__(self, actions: Tree) -> None:
        self._actions, self._step = actions, -1

    def act(self, obs: Tree) -> Choice:
        """Return the actions of the next step."""
        self._step += 1
        actions = take_rows(self._actions, self._step)
        return Choice(actions, actions)
