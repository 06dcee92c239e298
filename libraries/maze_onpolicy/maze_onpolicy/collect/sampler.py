"""Collecting rollouts: the sampler that steps environments with a network, a rollout at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from maze_core import RunError
from maze_core.collect.stepper import Stepper
from maze_core.envs.vector import agents_of
from maze_onpolicy.collect.rollout_sink import RolloutSink, allocate_samples

if TYPE_CHECKING:
    from maze_core import EpisodeSeeds, NetworkAgent, Rollout, TensorTree, VectorEnv
    from maze_core.collect.agents.agent import Agent
    from maze_onpolicy.collect.agent_row_sink import AgentRowSink
    from maze_onpolicy.collect.at_once import AtOnce


class Sampler:
    """Steps environments with a policy network, a rollout at a time; needs no run.

        network = NetworkAgent.sampling(policy, env.num_envs, torch.Generator().manual_seed(1))
        rollout = Sampler(network, env, 128, seeds).collect()

    A step is one policy forward for all environments, one vector step and writes into the rollout; sampling noise is
    drawn once per rollout, values and log-probabilities are left to one batched pass afterwards.

    Args:
        network: acts, on the device where its parameters are.
        env: the environments; reset at the first rollout.
        n_steps: T, steps in one rollout.
        seeds: the seeds of the episodes.
        agent: acts in the network's place, and asks it; None: the network acts itself.
        on_step: called after each step of the environments.
        complete: as for `RolloutSink`, where each environment has one agent.
        at_once: takes whole rollouts, where each environment has one agent and nothing else acts; None: nobody does.
    """

    def __init__(
        self,
        network: NetworkAgent,
        env: VectorEnv,
        n_steps: int,
        seeds: EpisodeSeeds,
        *,
        agent: Agent | None = None,
        on_step: Callable[[], None] = lambda: None,
        complete: bool = False,
        at_once: AtOnce | None = None,
    ) -> None:
        self._at_once = at_once
        self._policy, self._memory = network.policy, network.memory
        self._agent = network if agent is None else agent
        self._env, self._n_steps = env, n_steps
        self._stepper = Stepper(env, seeds)
        samples = allocate_samples(network, env, n_steps)
        self._several: AgentRowSink | None = None
        if agents_of(env):  # some transitions are still open between two rollouts
            from maze_onpolicy.collect.agent_row_sink import AgentRowSink

            self._several = AgentRowSink(env, samples, on_step, network.memory)
        self._sink = self._several or RolloutSink(env, samples, on_step, complete=complete)

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        return self._sink.rollout

    def collect(self) -> Rollout:
        """Step every environment `n_steps` times; the returned arrays are overwritten by the next call."""
        self._begin()
        with torch.inference_mode():
            self._fill()
        self._finish()
        return self._sink.rollout

    def _begin(self) -> None:
        agent, stepper, sink = self._agent, self._stepper, self._sink
        if not stepper.started:
            stepper.reset(sink.current)
        stepper.continue_from(sink.carry())
        agent.refresh()
        if self._memory is not None:
            stepper.begin_episodes(agent)  # the rollout has what is remembered before row 0: of a new episode, nothing
            memory = self._memory.snapshot(self._env.num_envs)
            sink.rollout.memory = memory if self._several is None else self._several.before(memory)

    def _fill(self) -> None:
        whole, sink = self._at_once, self._sink
        if whole is not None and isinstance(sink, RolloutSink) and whole.fill(sink, self._stepper, self._n_steps):
            return
        self._agent.expect(self._n_steps)
        fill(self._sink, self._stepper, self._agent, self._n_steps)

    def _finish(self) -> None:
        sink = self._sink
        critics: TensorTree = {}
        if self._several is not None:
            self._several.finish()
        sink.check_masks(self._n_steps)
        if self._memory is not None:
            from maze_onpolicy.data.pieces import critic_memory_after

            critics = critic_memory_after(self._policy, sink.rollout)
            self._memory.replace(critics)
        if self._several is not None:
            self._several.keep_open(self._policy, critics)

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy."""
        open_rows = {} if self._several is None else self._several.state()
        return {**self._stepper.state(), **self._agent.state(), **open_rows}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; unfinished episodes are replayed."""
        self._agent.load_state(state)
        self._stepper.restore(state, self._sink.current)
        if self._several is not None:
            self._several.load_state(state, self._stepper.begun)


def fill(sink: RolloutSink | AgentRowSink, stepper: Stepper, agent: Agent, steps: int) -> None:
    """Take some steps of a rollout. Where masks left no choice, that is the error, whatever the environment says."""
    try:
        stepper.step(agent, sink, steps)
    except RunError:
        # It may have refused an action for which there was no choice. The observation of the step that failed counts.
        sink.check_masks(sink.steps + 1)
        raise
