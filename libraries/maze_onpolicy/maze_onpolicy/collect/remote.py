"""The driver's side of collecting on workers: what chance decides is drawn here, and goes out with the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from maze_core.base.tree import put_rows, take_rows
from maze_core.collect.agents.network import NetworkAgent, SharedNoise, draws_itself
from maze_core.collect.stepper import Stepper
from maze_core.data.batch import to_tensors
from maze_core.envs.several.actors import actors_of
from maze_core.envs.spaces import allocate, allocated_bytes, space_specs
from maze_core.envs.vector import agents_of
from maze_onpolicy.collect.assignment import MEMORY, CollectAssignment
from maze_onpolicy.collect.parameter_arrays import acting_arrays
from maze_onpolicy.collect.sampler import critic_memory_after

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.collect.agents.exploration import Exploration
    from maze_core.collect.agents.rule import RuleAgent
    from maze_core.collect.stepper import Sink
    from maze_core.data.rollout import Rollout
    from maze_core.plugins.hookspecs import Run

_FEW = 64
_LARGEST = 2**28
"""Bytes that the observations of a rollout for replay may take: workers hold them until it is complete."""


def can_share(run: Run, exploration: Exploration | None) -> bool:
    """Return True where workers can take the steps of a rollout just as this process would.

    They cannot where a step decides the next actions in other environments: in groups of actors, how many rows there
    are, or what one generator of torch has drawn for the rows before.
    """
    return (
        run.has_collectors
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


class RemoteCollector:
    """Lets the workers of environments take some steps of all of them.

    Workers have no state of their own: one that was lost is replaced by another, which does the same again.

    Args:
        agent: draws the noise.
        env: environments of workers that can `gather`.
        n_steps: steps of each environment at a time.
        counted: as for `NetworkAgent.ahead`.
        on_steps: called within long collections, with the number of steps of environments since the last call.
    """

    def __init__(
        self, agent: NetworkAgent, env: Any, n_steps: int, on_steps: Callable[[int], None], *, counted: bool
    ) -> None:
        self._agent, self._env = agent, env
        self._n_steps, self._on_steps, self._counted = n_steps, on_steps, counted

    @staticmethod
    def of(
        run: Run,
        env: Any,
        agent: NetworkAgent,
        seeds: EpisodeSeeds,
        n_steps: int,
        exploration: Exploration | None,
        *,
        counted: bool,
    ) -> RemoteCollector | None:
        """Return one for a run that `can_share`; None where its environments are stepped in lockstep nevertheless."""
        if not hasattr(env, "gather") or agents_of(env):
            return None
        change = None if exploration is None else exploration.change
        assignment = CollectAssignment(run.policy, change, seeds, n_steps, torch.get_num_threads())
        if not env.assign(assignment):  # such as a model that was defined in a notebook
            return None

        def show(steps: int) -> None:
            run.progress.env_steps += steps

        return RemoteCollector(agent, env, n_steps, show, counted=counted)

    def take(self, stepper: Stepper, agent: RuleAgent, sink: Sink, steps: int) -> bool:
        """Let all environments take steps with the actions of another agent, at most so many; False if it has to see.

        They are few, so that Ctrl-C is heard.
        """
        actions = agent.ahead(min(steps, self._n_steps, _FEW))
        if actions is not None:
            stepper.follow(agent, sink, self._env.take(actions, self._on_steps))
        return actions is not None

    def collect(self, stepper: Stepper) -> Rollout:
        """Let all environments take the next steps. Then come `Stepper.follow` or `Stepper.stand`, and `remember`."""
        agent, rows = self._agent, self._env.num_envs
        stepper.announce(agent)
        memory = {} if agent.memory is None else agent.memory.snapshot(rows)
        arrays = {
            **acting_arrays(agent.policy),
            **agent.ahead(self._n_steps, rows, counted=self._counted).arrays(),
            **{MEMORY + key: leaf for key, leaf in memory.items()},
        }
        rollout: Rollout = self._env.gather(arrays, self._on_steps)
        rollout.memory = memory
        return rollout

    def remember(self, rollout: Rollout) -> None:
        """Let the agent remember what the policy did after a rollout."""
        if self._agent.memory is not None:
            self._agent.memory.replace(to_tensors(rollout.after))


class RemoteSampler:
    """Collects the rollouts of N environments from workers; the same as `Sampler` does in this process.

    Args:
        agent: a network, which acts in the workers.
        env: environments of workers.
        seeds: the seeds of the episodes.
        remote: lets the workers collect.
    """

    def __init__(self, agent: NetworkAgent, env: Any, seeds: EpisodeSeeds, remote: RemoteCollector) -> None:
        self._agent, self._remote = agent, remote
        agent.stand(env.num_envs)
        self._stepper = Stepper(env, seeds)
        self._obs = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
        self._rollout: Rollout | None = None

    @staticmethod
    def of(
        run: Run,
        env: Any,
        n_steps: int,
        seeds: EpisodeSeeds,
        noise: torch.Generator,
        exploration: Exploration | None,
    ) -> RemoteSampler | None:
        """Return one for a run that `can_share`; None where its environments are stepped in lockstep nevertheless."""
        drawn = SharedNoise(env.num_envs, noise) if exploration is None else None
        agent = NetworkAgent(run.policy, drawn, exploration=exploration, fast_rows=env.num_envs)
        remote = RemoteCollector.of(run, env, agent, seeds, n_steps, exploration, counted=False)
        return None if remote is None else RemoteSampler(agent, env, seeds, remote)

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        if self._rollout is None:
            raise RuntimeError("no rollout has been collected")
        return self._rollout

    def collect(self) -> Rollout:
        """Let every environment take the steps of a rollout; the returned arrays are overwritten by the next call."""
        stepper, agent = self._stepper, self._agent
        if not stepper.started:
            stepper.begin(self._obs)
        self._rollout = rollout = self._remote.collect(stepper)
        put_rows(self._obs, slice(None), take_rows(rollout.obs, -1))
        stepper.stand(self._obs, rollout.ended[-1].nonzero()[0].tolist())
        if agent.memory is not None:
            self._remote.remember(rollout)
            agent.memory.replace(critic_memory_after(agent.policy, rollout))
        return rollout

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy, as `Sampler.state` does."""
        return {**self._stepper.state(), **self._agent.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; the workers replay unfinished episodes."""
        self._agent.load_state(state)
        self._stepper.restore(state, self._obs)
