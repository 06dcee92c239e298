"""Transitions for a replay buffer that workers collect, each from its share of the environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from maze_core.acting.network import NetworkAgent
from maze_core.acting.noise_plan import NoisePlan, PlannedExploration, PlannedNoise
from maze_core.acting.replay import ReplaySink
from maze_core.acting.stepper import Stepper
from maze_core.acting.worker_agent import WorkerAgent
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import allocated_bytes, space_specs
from maze_core.envs.transitions import Record, Transitions
from maze_core.models.parameters import state_arrays
from maze_core.training.workers.worker_task import draws_itself
from maze_core.tree import take_rows, to_tensors

if TYPE_CHECKING:
    from maze_core.acting.exploration import Change, Exploration
    from maze_core.acting.rule import RuleAgent
    from maze_core.acting.stepper import Sink
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.worker import Share
    from maze_core.models.policy import Policy
    from maze_core.runners.workers import Arrays
    from maze_core.seeding import EpisodeSeeds
    from maze_core.training.run import Run
    from maze_core.tree import Tree

_MEMORY = "#memory/"
"""Where the memory of a policy is among the shared parameters."""
_FEW = 64
_LARGEST = 2**28
"""Bytes that the observations of a `collect` may take: workers hold them until it is complete."""


def can_share(run: Run, n_steps: int, num_envs: int, exploration: Exploration | None) -> bool:
    """Return True where workers can take the steps of a `collect` just as this process would.

    They cannot where a step decides the next actions in other environments: what a normaliser has learnt, or, in groups
    of actors, how many rows there are.
    """
    policy = run.policy
    return (
        run.has_collectors
        and n_steps > 1
        and allocated_bytes(space_specs(run.observation_space, "observation"), (n_steps, num_envs)) <= _LARGEST
        and run.device.type == "cpu"
        and getattr(policy, "normalizer", None) is None
        and actors_of(run.observation_space) is None
        and (exploration is None or exploration.change is not None)
        and not draws_itself(policy)
    )


class WorkerReplay:
    """The driver's side: lets the workers of environments take some steps of all of them.

    What chance decides is drawn here, and goes out with the parameters and with what the policy remembers. So workers
    have no state of their own, and one that was lost is replaced by another, which does the same again.

    Args:
        agent: draws the noise.
        env: environments of workers that can `gather`.
        n_steps: steps of each environment at a time.
        on_steps: called within long collections, with the number of steps of environments since the last call.
    """

    def __init__(self, agent: NetworkAgent, env: Any, n_steps: int, on_steps: Callable[[int], None]) -> None:
        self._agent, self._env = agent, env
        self._n_steps, self._on_steps = n_steps, on_steps

    @staticmethod
    def of(
        run: Run,
        env: Any,
        agent: NetworkAgent,
        seeds: EpisodeSeeds,
        n_steps: int,
        exploration: Exploration | None,
    ) -> WorkerReplay | None:
        """Return one for a run that `can_share`; None where its environments are stepped in lockstep nevertheless."""
        if not hasattr(env, "gather"):
            return None
        change = None if exploration is None else exploration.change
        assignment = CollectTransitions(run.policy, change, seeds, n_steps, torch.get_num_threads())
        if not env.assign(assignment):  # such as a model that was defined in a notebook
            return None

        def show(steps: int) -> None:
            run.progress.env_steps += steps

        return WorkerReplay(agent, env, n_steps, show)

    def take(self, stepper: Stepper, agent: RuleAgent, sink: Sink, steps: int) -> bool:
        """Let all environments take steps with the actions of another agent, at most so many; False if it has to see.

        They are few, so that Ctrl-C is heard.
        """
        actions = agent.ahead(min(steps, self._n_steps, _FEW))
        if actions is not None:
            stepper.follow(agent, sink, self._env.take(actions, self._on_steps))
        return actions is not None

    def collect(self, stepper: Stepper, sink: Sink) -> None:
        """Let all environments take the next steps."""
        agent, rows = self._agent, self._env.num_envs
        stepper.announce(agent)
        memory = {} if agent.memory is None else agent.memory.snapshot(rows)
        arrays = {
            **state_arrays(agent.policy, passing=True),
            **agent.ahead(self._n_steps, rows).arrays(),
            **{_MEMORY + key: leaf for key, leaf in memory.items()},
        }
        transitions = self._env.gather(arrays, self._on_steps)
        stepper.follow(agent, sink, transitions)
        if agent.memory is not None:
            agent.memory.replace(to_tensors(transitions.remembered))


@dataclass(frozen=True, slots=True)
class CollectTransitions:
    """What a worker has to know to collect transitions with its environments."""

    policy: Policy
    change: Change | None
    """What exploration does to the most likely actions; None: actions are samples of the policy."""
    seeds: EpisodeSeeds
    n_steps: int
    threads: int
    """Torch's threads, on which the last digits of large products may depend."""

    def begin(self, env: SerialVectorEnv, share: Share) -> TransitionGatherer:
        """Return what collects with a share of the environments."""
        return TransitionGatherer(self, env, share)


class TransitionGatherer:
    """The worker's side: steps a share of the environments with a copy of the policy."""

    def __init__(self, assignment: CollectTransitions, env: SerialVectorEnv, share: Share) -> None:
        torch.set_num_threads(assignment.threads)
        self._n_steps = assignment.n_steps
        self._noise = PlannedNoise() if assignment.change is None else None
        self._exploration = None if assignment.change is None else PlannedExploration(assignment.change)
        network = NetworkAgent(assignment.policy, self._noise, exploration=self._exploration, fast_rows=share.total)
        self._memory, self._share = network.memory, share
        self._agent = WorkerAgent(network, share)
        self._parameters = state_arrays(assignment.policy, passing=True)
        self._record = Record(env, assignment.n_steps)
        self._sink = ReplaySink(self._record, env, None, torch.device("cpu"), lambda result: None)
        self._stepper = Stepper(env, assignment.seeds)

    def begin(self, arrays: Arrays, obs: Tree) -> None:
        """Begin the next steps from these observations, with these parameters and what was drawn."""
        for name, leaf in self._parameters.items():
            leaf[...] = arrays[name]
        drawn = NoisePlan.among(arrays)
        if self._noise is not None:
            self._noise.take(drawn.noise)
        if self._exploration is not None:
            self._exploration.take(drawn.explored)
        if self._memory is not None:
            remembered = {name: leaf for name, leaf in arrays.items() if name.startswith(_MEMORY)}
            self._memory.replace({k.removeprefix(_MEMORY): torch.from_numpy(v.copy()) for k, v in remembered.items()})
        for key, leaf in self._sink.obs.items():
            leaf[...] = obs[key]
        self._sink.begin()
        self._stepper.move(self._sink.obs)
        self._agent.expect(self._n_steps)

    def advance(self, seconds: float) -> Transitions | int:
        """Go on for so many seconds; return the transitions, or the number of steps so far."""
        record = self._record
        with torch.inference_mode():
            self._stepper.advance(self._agent, self._sink, self._n_steps - record.taken, seconds)
        if record.taken < self._n_steps:
            return record.taken
        transitions = record.transitions()
        if self._memory is not None:
            own = slice(self._share.first, self._share.first + self._share.count)
            transitions.remembered = take_rows(self._memory.snapshot(self._share.total), own)
        return transitions
