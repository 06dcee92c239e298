"""Evaluations on workers: each plays the episodes of its share of the environments with a copy of the policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from maze_core import ActingPolicy
from maze_core.collect.agents.network import draws_itself
from maze_core.envs.actors import actors_of
from maze_core.envs.vector import agents_of
from maze_core.run.episodes.evaluation import Playing, evaluating_agent, evaluation_mode

if TYPE_CHECKING:
    from maze_core import EpisodeSeeds, Policy, VectorEnv
    from maze_core.envs.vector import Episode, Share
    from maze_core.envs.wrappers import Memory
    from maze_local.pooled_envs import PooledVectorEnv


@dataclass(frozen=True, slots=True)
class EvaluationGame:
    """What a worker has to know of an evaluation; the arguments of `evaluate_policy`."""

    policy: Policy
    seeds: EpisodeSeeds
    n_episodes: int
    deterministic: bool
    noise: int
    """The seed of the noise."""
    limit: int | None
    memory: list[Memory]
    """What the wrappers of each environment remember before it; empty: they remember nothing."""
    threads: int
    """Torch's threads, on which the last digits of large products may depend."""

    def begin(self, env: VectorEnv, share: Share) -> WorkerGame:
        """Return the part of an environment that is a share of the evaluation's."""
        return WorkerGame(self, env, share)


class WorkerGame:
    """The episodes of one share, in a worker."""

    def __init__(self, game: EvaluationGame, env: VectorEnv, share: Share) -> None:
        torch.set_num_threads(game.threads)
        noise = torch.Generator().manual_seed(game.noise)
        self._policy = game.policy
        env.load_memory(game.memory[share.first : share.first + share.count])
        agent = evaluating_agent(game.policy, env, game.deterministic, noise, share)
        self._playing = Playing(agent, env, game.seeds, game.n_episodes, limit=game.limit, share=share)

    def advance(self, seconds: float) -> list[Episode] | int:
        """Play for so many seconds; return the episodes, or the steps of the longest one so far."""
        end = time.monotonic() + seconds
        with evaluation_mode(self._policy):
            while not self._playing.advance(1):
                if time.monotonic() >= end:
                    return self._playing.longest
        return self._playing.episodes


def evaluate_on_workers(
    env: PooledVectorEnv, policy: Policy | ActingPolicy, look: Callable[[int], None], memory: list[Memory], **game: Any
) -> list[Episode] | None:
    """Return the same episodes as `evaluate_policy`, played by the workers that step `env`, without a call per step.

    None where these cannot play, or would not play the same: the environments remember earlier evaluations, several
    agents or actors act in them, or the policy is no network on the CPU or draws random numbers of torch's own.

    Args:
        env: the environments.
        policy: the policy.
        look: called about every second of each worker with the steps of its longest unfinished episode.
        memory: of `EvaluationGame`.
        game: its other fields.
    """
    if isinstance(policy, ActingPolicy) or agents_of(env) or (any(env.memory()) and not memory):
        return None
    if next(policy.parameters()).device.type != "cpu" or actors_of(env.observation_space) or draws_itself(policy):
        return None
    shares = env.play(EvaluationGame(policy, memory=memory, threads=torch.get_num_threads(), **game), look)
    if shares is None:
        return None
    episodes = [episode for share in shares for episode in share]
    return sorted(episodes, key=lambda episode: (episode.episode_number, episode.env_index))
