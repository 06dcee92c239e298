"""Collecting rollouts: the sink that fills one, and the sampler that steps environments into it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.base.errors import RunError
from maze_core.base.tree import flat_rows, map_tree, put_rows, take_rows
from maze_core.collect.agents.forward import TorchForward
from maze_core.collect.agents.memory import RowMemory
from maze_core.collect.agents.network import NetworkAgent, Noise, SharedNoise
from maze_core.collect.stepper import Stepper
from maze_core.data.batch import to_tensors
from maze_core.data.rollout import Rollout
from maze_core.data.sequences import Sequences
from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import agents_of
from maze_core.models.memory import remembers
from maze_onpolicy.collect.agent_row_sink import AgentRowSink
from maze_onpolicy.data.pieces import Pieces

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.base.tree import TensorTree, Tree
    from maze_core.collect.agents.agent import Agent, Choice
    from maze_core.collect.agents.exploration import Exploration
    from maze_core.envs.vector import StepResult, VectorEnv
    from maze_core.models.policy import Policy

    LogProbs = Callable[[Tree, Tree, Tree], np.ndarray]


class RolloutSink:
    """Writes transitions into the arrays of one rollout, which the next one overwrites.

    Args:
        obs: leaves [T + 1, N, …]
        samples: leaves [T, N, …]
        masks: the leaves of `obs` that are action masks.
        on_step: called after each step of the environments.
        complete: also keep `env_actions` and `terminations`, which replay and the log of unfinished episodes need.
    """

    def __init__(
        self,
        obs: Tree,
        samples: Tree,
        masks: Collection[str] = (),
        on_step: Callable[[], None] = lambda: None,
        *,
        complete: bool = False,
    ) -> None:
        self._on_step, self._masks, self._complete = on_step, masks, complete
        self.steps = 0
        """Steps taken of this rollout."""
        self._rows = [take_rows(obs, t) for t in range(len(next(iter(obs.values()))))]
        self.rollout = Rollout.over(obs, samples, valid=True)

    @property
    def current(self) -> Tree:
        """The arrays of the observations that the next rollout begins with, leaves [N, …]."""
        return self._rows[-1]

    def carry(self) -> Tree:
        """Begin the next rollout with the current observations; return their new arrays."""
        rollout = self.rollout
        for leaf in rollout.obs.values():
            leaf[0] = leaf[-1]
        self.steps = 0
        rollout.clear()
        rollout.terminated.fill(False)
        rollout.truncated.fill(False)
        rollout.valid.fill(True)
        return self._rows[0]

    def before(self, state: Tree) -> Tree:
        """Return the memory before row 0: that before the current observations."""
        return state

    def replace(self, leaves: TensorTree) -> None:
        """Do nothing: no transition is open between two rollouts."""

    def room(self, obs: Tree) -> Tree:
        """Return the row after the current one."""
        return self._rows[self.steps + 1]

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one transition of every environment; the observations are where they belong."""
        rollout, t = self.rollout, self.steps
        for key, sample in choice.samples.items():
            rollout.actions[key][t] = sample
        if self._complete:
            self._keep_actions(choice)
        rollout.rewards[t] = result.reward
        for name, values in result.info.items():
            if t == 0:
                rollout.extra[name] = np.zeros_like(rollout.rewards)
            rollout.extra[name][t] = values
        if result.has_filler:
            rollout.valid[t] = result.valid
        if len(result.final_indices):
            rollout.terminated[t] = result.terminated
            rollout.truncated[t] = result.truncated
            self._add_cut(result)
            rollout.episodes += result.episodes
        self.steps = t + 1
        self._on_step()

    def finish(self) -> None:
        """Do nothing: the rollout is complete."""

    def judge(self, log_prob: LogProbs) -> None:
        """Do nothing: no action is open."""

    def forget(self, rows: Sequence[int]) -> None:
        """Do nothing: no transition is open between two rollouts."""

    def acted_on(self, steps: int) -> Tree:
        """Return the masks of the first steps, filler rows left out; leaves [R, …]."""
        valid = self.rollout.valid[:steps]
        return {key: self.rollout.obs[key][:steps][valid] for key in self._masks}

    def state(self) -> dict[str, Any]:
        """Return nothing: the current observations are restored with the environments."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing."""

    def _add_cut(self, result: StepResult) -> None:
        cut, final_obs = result.truncated[result.final_indices], result.final_obs
        if final_obs is None:
            return
        for ends, which in ((self.rollout.truncations, cut), (self.rollout.terminations, ~cut)):
            if which.any() and (self._complete or which is cut):
                ends.append((self.steps, result.final_indices[which], take_rows(final_obs, which)))

    def _keep_actions(self, choice: Choice) -> None:
        """Keep actions in environment units: in arrays of their own only where they are not the samples."""
        rollout, t = self.rollout, self.steps
        for key, action in choice.actions.items():
            samples, kept = rollout.actions.get(key), rollout.env_actions.get(key)
            if samples is not None and action is choice.samples[key] and (kept is None or kept is samples):
                rollout.env_actions[key] = samples
                continue
            if kept is None or kept is samples:
                steps = len(rollout.rewards)
                own = rollout.env_actions[key] = np.zeros((steps, *action.shape), action.dtype)
                if kept is not None:
                    own[:t] = kept[:t]
            rollout.env_actions[key][t] = action


class Sampler:
    """Steps environments with a policy, a rollout at a time; needs no run.

    A step is one policy forward for all environments, one vector step and writes into the rollout; sampling noise is
    drawn once per rollout, values and log-probabilities are left to one batched pass afterwards.

    Args:
        policy: acts, on the device where its parameters are.
        env: the environments; reset at the first rollout.
        n_steps: T, steps in one rollout.
        seeds: the seeds of the episodes.
        noise: the sampling noise is drawn from it.
        on_step: called after each step of the environments.
        exploration: None: actions are samples of the policy; otherwise they are its most likely ones, changed by it.
        wrapped: returns the agent that acts instead of the policy's.
        rows: the number of rows that the policy acts for, more than those of `env`, which `wrapped` then has to choose;
            what the critic alone remembers is left to the caller. None: those of `env`.
        complete: as for `RolloutSink`.
    """

    def __init__(
        self,
        policy: Policy,
        env: VectorEnv,
        n_steps: int,
        seeds: EpisodeSeeds,
        noise: torch.Generator | Noise,
        on_step: Callable[[], None] = lambda: None,
        exploration: Exploration | None = None,
        wrapped: Callable[[NetworkAgent], Agent] = lambda agent: agent,
        rows: int | None = None,
        *,
        complete: bool = False,
    ) -> None:
        self._env, self._n_steps = env, n_steps
        shared = SharedNoise(rows or env.num_envs, noise) if isinstance(noise, torch.Generator) else noise
        drawn = shared if exploration is None else None
        network = NetworkAgent(policy, drawn, exploration=exploration, fast_rows=rows or env.num_envs)
        network.stand(rows or env.num_envs)
        self._memory = network.memory if rows is None else None
        self._policy, self._agent = policy, wrapped(network)
        self._stepper = Stepper(env, seeds)
        specs = space_specs(env.observation_space, "observation")
        obs = allocate(specs, (n_steps + 1, env.num_envs))
        if exploration is None:
            samples = _allocate_samples(policy, obs)
        else:
            samples = allocate(space_specs(env.action_space, "action"), (n_steps, env.num_envs))
        self._masks = MaskCheck(env.observation_space, env.action_space)
        self._sink = (
            AgentRowSink(obs, samples, self._masks.leaves, on_step, self._memory)
            if agents_of(env)
            else RolloutSink(obs, samples, self._masks.leaves, on_step, complete=complete)
        )

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        return self._sink.rollout

    @property
    def steps(self) -> int:
        """Steps taken of the rollout that is under way."""
        return self._sink.steps

    def collect(self) -> Rollout:
        """Step every environment `n_steps` times; the returned arrays are overwritten by the next call."""
        self.begin()
        self.advance()
        return self.finish()

    def begin(self) -> None:
        """Begin a rollout."""
        agent, stepper, sink = self._agent, self._stepper, self._sink
        if not stepper.started:
            stepper.begin(sink.current)
        stepper.move(sink.carry())
        agent.refresh()
        if self._memory is not None:
            stepper.announce(agent)
            sink.rollout.memory = sink.before(self._memory.snapshot(self._env.num_envs))
        agent.expect(self._n_steps)

    def advance(self, seconds: float | None = None) -> bool:
        """Step to the end of the rollout, or for so many seconds, at least once; return True at its end."""
        sink = self._sink
        try:
            with torch.inference_mode():
                self._stepper.advance(self._agent, sink, self._n_steps - sink.steps, seconds)
        except RunError:
            self._check_masks(sink.steps + 1)  # an environment that refuses an action may have left no choice
            raise
        return sink.steps == self._n_steps

    def finish(self) -> Rollout:
        """End the rollout after its last step."""
        sink = self._sink
        sink.finish()
        self._check_masks(self._n_steps)
        if self._memory is not None:
            critics = critic_memory_after(self._policy, sink.rollout)
            self._memory.replace(critics)
            sink.replace(critics)
        sink.judge(self._log_probs)
        return sink.rollout

    def _log_probs(self, obs: Tree, actions: Tree, memory: Tree) -> np.ndarray:
        """Return the log-probabilities [K] of actions, with the parameters of the moment; all leaves [K, …]."""
        device = next(self._policy.parameters()).device
        seen, taken, before = (to_tensors(tree, device) for tree in (obs, actions, memory))
        with torch.no_grad():
            distribution = (
                self._policy.distribution(seen, Sequences(np.ones(len(next(iter(obs.values()))), np.int64), before))
                if before
                else self._policy.distribution(seen)
            )
            log_prob: np.ndarray = distribution.log_prob(taken).numpy(force=True)
        return log_prob

    def _check_masks(self, steps: int) -> None:
        """Refuse masks that left no choice in the first steps of the rollout."""
        self._masks.check(self._sink.acted_on(steps))

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy."""
        return {**self._stepper.state(), **self._agent.state(), **self._sink.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; unfinished episodes are replayed."""
        self._agent.load_state(state)
        self._stepper.restore(state, self._sink.current)
        self._sink.load_state(state)
        self._sink.forget(self._stepper.begun)

    def stand(self, obs: Tree) -> None:
        """Go on from the current observations, leaves [N, …], of environments that were begun elsewhere."""
        put_rows(self._sink.current, slice(None), obs)
        self._stepper.stand(self._sink.current)


def critic_memory_after(policy: Policy, rollout: Rollout) -> TensorTree:
    """Return what the critic alone remembers after a rollout, leaves [N, …]: it does not act, so it reads it now.

    Columns without a valid row keep what they remembered before; those whose last episode ended remember nothing.
    """
    valid, ended = rollout.valid, rollout.terminated | rollout.truncated
    pieces = Pieces.of(valid, ended)
    if not len(pieces.columns):  # nobody acted, or all actions are open
        return {}
    # Of each environment only the last piece counts.
    last = np.flatnonzero(np.append(pieces.columns[1:] != pieces.columns[:-1], True)[: len(pieces.columns)])
    pieces = Pieces(pieces.columns[last], pieces.first[last], pieces.lengths[last])
    rows = pieces.rows(valid.shape[1])
    device = next(policy.parameters()).device
    flat = to_tensors(take_rows(flat_rows(rollout.obs), rows), device)
    memory = to_tensors(rollout.memory)
    state = pieces.states(policy.initial_state(len(pieces.columns)), memory)
    with torch.inference_mode():
        after = policy.critic_state(flat, Sequences(pieces.lengths, state))
    fresh = policy.initial_state(len(pieces.columns))
    over = torch.from_numpy(ended[pieces.first + pieces.lengths - 1, pieces.columns])
    for key, leaf in after.items():
        columns = torch.from_numpy(pieces.columns).to(leaf.device)
        rest = torch.where(over.to(leaf.device).reshape(-1, *[1] * (leaf.ndim - 1)), fresh[key], leaf)
        after[key] = memory[key].to(leaf.device).index_copy(0, columns, rest)
    return after


def _allocate_samples(policy: Policy, obs: Tree) -> Tree:
    """Allocate arrays [T, N, …] for what the action distribution samples; only a sample tells their shapes."""
    steps, rows = next(iter(obs.values())).shape[:2]
    forward = TorchForward(policy, memory=RowMemory(policy) if remembers(policy) else None)
    (noise,) = forward.by_step(policy.draw_noise((1, rows), torch.Generator()))
    with torch.inference_mode():
        samples = forward.act(map_tree(lambda v: np.zeros_like(v[0]), obs), noise).samples
    return map_tree(lambda v: np.zeros((steps - 1, *v.shape), v.dtype), samples)
