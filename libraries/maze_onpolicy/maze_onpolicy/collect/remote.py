"""The driver's side of collecting on workers: what chance decides is drawn here, and goes out with the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from maze_core import take_rows, to_tensors
from maze_core.base.tree import put_rows
from maze_core.collect.agents.agent import Choice
from maze_core.collect.agents.network import draws_itself
from maze_core.collect.stepper import Stepper
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import allocate, allocated_bytes, space_specs
from maze_core.envs.vector import agents_of
from maze_onpolicy.collect.assignment import MEMORY, CollectAssignment
from maze_onpolicy.collect.parameter_arrays import acting_arrays
from maze_onpolicy.data.pieces import critic_memory_after

if TYPE_CHECKING:
    from maze_core import EpisodeSeeds, NetworkAgent, Rollout
    from maze_core.collect.agents.agent import Agent, Exploration
    from maze_core.collect.agents.rule import RuleAgent
    from maze_core.collect.stepper import Sink
    from maze_core.plugins.hookspecs import Run

_FEW = 64
"""The most steps with actions that are known ahead: between two such pieces Ctrl-C is heard."""
_LARGEST = 2**28
"""Bytes that the observations of a rollout for replay may take: workers hold them until it is complete."""


def can_share(run: Run, exploration: Exploration | None) -> bool:
    """Return True where workers can take the steps of a rollout just as this process would.

    They cannot where a step decides the next actions in other environments: in groups of actors, how many rows there
    are, or what one generator of torch has drawn for the rows before.
    """
    return (
        run.environments.has_collectors
        and run.device.type == "cpu"
        and actors_of(run.observation_space) is None
        and (exploration is None or exploration.change is not None)
        and not draws_itself(run.policy)
    )


def can_share_replay(run: Run, n_steps: int, num_envs: int, exploration: Exploration | None) -> bool:
    """The same for steps that go to replay, where a normaliser learns from each observation at once."""
    specs = space_specs(run.observation_space, "observation")
    return (
        n_steps > 1
        and getattr(run.policy, "normalizer", None) is None
        and allocated_bytes(specs, (n_steps, num_envs)) <= _LARGEST
        and can_share(run, exploration)
    )


class RemoteStepper(Stepper):
    """Steps environments on workers, which also take some steps on their own: the same as a `Stepper` does here.

    Workers have no state of their own: one that was lost is replaced by another, which does the same again.

    Args:
        env: environments of workers that can `gather`.
        seeds: the seeds of their episodes.
        network: acts in the workers; what chance decides is drawn from it.
        n_steps: steps of each environment at a time.
        counted: as for `NetworkAgent.ahead`.
        on_steps: called within long collections, with the number of steps of environments since the last call.
    """

    def __init__(
        self,
        env: Any,
        seeds: EpisodeSeeds,
        network: NetworkAgent,
        n_steps: int,
        on_steps: Callable[[int], None],
        *,
        counted: bool,
    ) -> None:
        super().__init__(env, seeds)
        self.env: Any = env
        self._network, self._n_steps = network, n_steps
        self._on_steps, self._counted = on_steps, counted

    @staticmethod
    def of(
        run: Run, env: Any, seeds: EpisodeSeeds, network: NetworkAgent, n_steps: int, *, counted: bool
    ) -> RemoteStepper | None:
        """Return one for a run that `can_share`; None where its environments are stepped in lockstep nevertheless."""
        if not hasattr(env, "gather") or agents_of(env):
            return None
        change = None if network.exploration is None else network.exploration.change
        assignment = CollectAssignment(run.policy, change, seeds, n_steps, torch.get_num_threads())
        if not env.assign(assignment):  # such as a model that was defined in a notebook
            return None

        def show(steps: int) -> None:
            run.progress.env_steps += steps

        return RemoteStepper(env, seeds, network, n_steps, show, counted=counted)

    def collect(self, sink: Sink | None = None) -> Rollout:
        """Let all environments take the next `n_steps`, which a sink sees as if they were taken here.

        `reset` or `restore` comes first. The next call overwrites the arrays that are returned.
        """
        if self._obs is None:
            raise RuntimeError("the environments have not been reset")
        network, rows = self._network, self.env.num_envs
        self.begin_episodes(network)
        memory = {} if network.memory is None else network.memory.snapshot(rows)
        arrays = {
            **acting_arrays(network.policy),
            **network.ahead(self._n_steps, rows, counted=self._counted).arrays(),
            **{MEMORY + key: leaf for key, leaf in memory.items()},
        }
        rollout: Rollout = self.env.gather(arrays, self._on_steps)
        rollout.memory = memory
        if sink is None:
            put_rows(self._obs, slice(None), take_rows(rollout.obs, -1))
            self._begun = rollout.ended[-1].nonzero()[0].tolist()
        else:
            self._follow(network, sink, rollout)
        if network.memory is not None:
            network.memory.replace(to_tensors(rollout.after))
        return rollout

    def take(self, agent: RuleAgent, sink: Sink, steps: int) -> bool:
        """Let all environments take some steps with the actions of a rule, at most so many; False if it has to see."""
        actions = agent.ahead(min(steps, self._n_steps, _FEW))
        if actions is not None:
            self._follow(agent, sink, self.env.take(actions, self._on_steps))
        return actions is not None

    def _follow(self, agent: Agent, sink: Sink, rollout: Rollout) -> None:
        """Let agent and sink see steps that workers took, as if they were taken here."""
        obs = self._obs or {}
        for actions, result, after in rollout.steps():
            self.begin_episodes(agent)
            following = sink.next_buffer(obs)
            put_rows(following, slice(None), after)
            self._obs, self._begun = following, result.begun
            sink.add(obs, Choice(actions, actions), result, following)
            obs = following


class RemoteSampler:
    """Collects the rollouts of N environments from workers; the same as `Sampler` does in this process.

    Args:
        network: acts in the workers.
        stepper: lets them step.
    """

    def __init__(self, network: NetworkAgent, stepper: RemoteStepper) -> None:
        self._network, self._stepper = network, stepper
        env = stepper.env
        self._obs = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
        self._rollout: Rollout | None = None

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        if self._rollout is None:
            raise RuntimeError("no rollout has been collected")
        return self._rollout

    def collect(self) -> Rollout:
        """Let every environment take the steps of a rollout; the returned arrays are overwritten by the next call."""
        network = self._network
        if not self._stepper.started:
            self._stepper.reset(self._obs)
        self._rollout = rollout = self._stepper.collect()
        if network.memory is not None:
            network.memory.replace(critic_memory_after(network.policy, rollout))
        return rollout

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy, as `Sampler.state` does."""
        return {**self._stepper.state(), **self._network.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; the workers replay unfinished episodes."""
        self._network.load_state(state)
        self._stepper.restore(state, self._obs)
