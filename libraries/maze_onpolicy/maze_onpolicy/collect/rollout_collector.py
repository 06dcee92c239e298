"""Collects the rollouts of an on-policy run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch

from maze_core import Collector, EpisodeSeeds, Purpose, take_rows, to_tensors, torch_generator, varies
from maze_core.base.free_ram import check_ram
from maze_core.base.saved_state import OrLeftOut
from maze_core.base.tree import flat_rows
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import allocated_bytes, space_specs
from maze_core.envs.vector import copies_of
from maze_core.plugins.config.params import setting
from maze_onpolicy.collect.sampler import Sampler
from maze_onpolicy.collect.training_agent import training_agent

if TYPE_CHECKING:
    from maze_normalizers.normalizer import ObservationNormalizer

    from maze_core import NetworkAgent, Rollout, VectorEnv
    from maze_core.collect.agents.agent import Exploration
    from maze_core.plugins.hookspecs import Run
    from maze_onpolicy.collect.at_once import AtOnce
    from maze_onpolicy.collect.remote import RemoteSampler
    from maze_onpolicy.collect.resident import ResidentSampler
    from maze_onpolicy.collect.several_agents import AgentGroups
    from maze_onpolicy.data.reward_scale import RewardScale


def _check_rollout(run: Run, num_envs: int, n_steps: int) -> None:
    """Raise ConfigError if a rollout and its shuffled copy do not fit into memory."""
    specs = space_specs(run.observation_space, "observation")
    needed = 2 * allocated_bytes(specs, (n_steps + 1, run.rows_of(num_envs)))
    check_ram(needed, n_steps, setting(run.config.algorithm, "n_rollout_steps"), what="steps of a rollout")


def learn_observations(normalizer: ObservationNormalizer | None, rollout: Rollout, device: torch.device) -> None:
    """Let a normaliser on `device`, if there is one, learn from the observations of a rollout that were acted on."""
    if normalizer is not None:
        valid = None if rollout.valid.all() else torch.from_numpy(rollout.valid.reshape(-1)).to(device)
        obs = to_tensors(flat_rows(take_rows(rollout.obs, np.s_[:-1])), device)
        normalizer.update(obs, valid)


class RolloutCollector(Collector):
    """Steps the training environments of a run with its policy and updates the run's counters.

    Args:
        run: provides environments, policy and counters.
        n_steps: steps of each environment in one rollout.
        num_envs: number of environments.
        exploration: None: actions are samples of the policy; otherwise they are its most likely ones, changed by it.
        reward_scale: scales the rewards of each rollout, after plugins have changed it; None: rewards stay as they are.
    """

    calls: ClassVar[tuple[str, ...]] = ("wrap_agent", "build_planner", "change_rollout")

    def __init__(
        self,
        run: Run,
        n_steps: int,
        num_envs: int = 8,
        exploration: Exploration | None = None,
        reward_scale: RewardScale | None = None,
    ) -> None:
        self._run = run
        run.hooks.announce(*self.calls)
        run.explores = exploration is not None
        self._reward_scale = reward_scale
        self._groups: AgentGroups | None = None
        if (actors := actors_of(run.observation_space)) is not None:
            from maze_onpolicy.collect.several_agents import AgentGroups

            self._groups = AgentGroups(run, actors)
        plain = not run.hooks.wraps_agent and run.planning("training") is None
        _check_rollout(run, num_envs, n_steps)
        env = run.training_env(num_envs)
        self._rows = env.num_envs
        seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES)
        network = training_agent(run, env, exploration)
        remote = self._remote(network, env, n_steps, seeds) if plain and run.environments.has_collectors else None
        self.on_workers = remote is not None
        """True where workers take the steps of a collection on their own, False where this process leads each step."""
        resident = self._resident(env, n_steps, seeds) if plain and exploration is None else None
        self._sampler: Sampler | RemoteSampler | ResidentSampler = (
            remote or resident or self._lockstep(network, env, n_steps, seeds)
        )

    @classmethod
    def of(cls, run: Run, config: Any) -> Self:
        """Return the collector that an algorithm's parameters ask for.

        Args:
            run: provides environments, policy and counters.
            config: with `n_rollout_steps` and `num_envs`, and with `normalize_rewards` and `gamma`.
        """
        reward_scale: RewardScale | None = None
        if config.normalize_rewards:
            from maze_onpolicy.data.reward_scale import RewardScale

            reward_scale = RewardScale(lambda: config.gamma)
        return cls(run, config.n_rollout_steps, config.num_envs, reward_scale=reward_scale)

    def _lockstep(self, network: NetworkAgent, env: VectorEnv, n_steps: int, seeds: EpisodeSeeds) -> Sampler:
        """Return a sampler that steps the environments together, one forward for all."""
        run, copies = self._run, copies_of(env)
        agent = run.planning_agent(network, env, seeds) or run.hooks.wrap_agent(run, network, env)
        at_once: AtOnce | None = None
        if run.config.compile != "off" and hasattr(env, "at_once"):
            from maze_onpolicy.collect.at_once import AtOnce

            alone = agent is network and network.exploration is None
            at_once = AtOnce.of(network, env, "" if alone else "a plugin or exploration changes the actions")
        show = partial(self._show_progress, copies)
        return Sampler(network, env, n_steps, seeds, agent=agent, on_step=show, at_once=at_once)

    def _remote(self, network: NetworkAgent, env: VectorEnv, n_steps: int, seeds: EpisodeSeeds) -> RemoteSampler | None:
        """Return a sampler whose steps workers take on their own, where the environment and the policy allow it."""
        from maze_onpolicy.collect.remote import RemoteSampler, RemoteStepper, can_share

        if not can_share(self._run, network.exploration):
            return None
        # Steps are counted when the rollout is complete: exploration that follows the count stays as it is within one.
        stepper = RemoteStepper.of(self._run, env, seeds, network, n_steps, counted=False)
        return None if stepper is None else RemoteSampler(network, stepper)

    def _resident(self, env: VectorEnv, n_steps: int, seeds: EpisodeSeeds) -> ResidentSampler | None:
        """Return a sampler whose rollouts stay on the device, where the environment and all who read them allow it."""
        run, copies = self._run, copies_of(env)
        if not run.algorithm.supports_tensors or run.hooks.changes_rollouts or run.config.learners > 1:
            return None
        if not hasattr(env, "tensors") or run.config.info_columns:
            return None
        from maze_onpolicy.collect.resident import ResidentSampler

        noise = torch_generator(run.seed, Purpose.POLICY_NOISE)
        return ResidentSampler.of(run.policy, env, n_steps, seeds, noise, lambda: self._show_progress(copies))

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        return self._sampler.rollout

    def collect(self) -> Rollout:
        """Step every environment `n_steps` times; the returned arrays are overwritten by the next call.

        Where agents have different networks, `extra` names the `group` of each row: their advantages have different
        scales, since each agent has rewards of its own. Plugins may change the rollout (hook `change_rollout`).
        """
        rollout = self._sampler.collect()
        self._run.count_env_steps(int(rollout.valid.sum()))
        self._run.statistics.add(rollout.episodes)
        if self._groups is not None:
            self._groups.name(rollout)
            self._run.record(self._groups.metrics(rollout))
        self._run.hooks.change_rollout(self._run, rollout)
        if self._reward_scale is not None:
            self._reward_scale(rollout)
        return rollout

    def _show_progress(self, steps: int) -> None:
        self._run.progress.env_steps += steps

    def update_normalizer(self) -> None:
        """Update the policy's observation normaliser, if it has one, with this rollout.

        Call it after the last optimizer step on the rollout, so that acting and the old and new log-probabilities use
        the same statistics.
        """
        learn_observations(self._run.policy.normalizer, self.rollout, self._run.device)

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy."""
        if self._reward_scale is None:
            return self._sampler.state()
        scale = self._reward_scale.state(self._rows)
        return self._sampler.state() | {"reward_scale": varies(scale, OrLeftOut(scale))}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; unfinished episodes are replayed."""
        if self._reward_scale is not None and "reward_scale" in state:  # else it is a new setting of a resumed run
            self._reward_scale.load_state(state["reward_scale"])
        self._sampler.load_state({name: value for name, value in state.items() if name != "reward_scale"})
