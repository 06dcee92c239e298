"""Evaluation: a fixed quota of episodes on environments built exactly like the training ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from maze_core.envs.spaces import allocate, flatten_space, leaf_spec
from maze_core.envs.vector import Episode

if TYPE_CHECKING:
    from maze_core.envs.vector import VectorEnv
    from maze_core.models.policy import Policy
    from maze_core.training.seeding import EpisodeSeeds


class EvaluationInterrupted(Exception):  # noqa: N818 — no error: the user asked for it
    """The user interrupted the run during an evaluation; what it had found is dropped."""


def evaluate_policy(
    policy: Policy,
    env: VectorEnv,
    seeds: EpisodeSeeds,
    n_episodes: int,
    *,
    deterministic: bool,
    noise: torch.Generator,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Episode]:
    """Play episodes 0 … n_episodes-1 and return them in order.

    Environment i plays episodes i, i + N, i + 2N, …: which episodes count is settled before the first step, so short
    ones are not preferred, and with `seeds` striding by N the result of a deterministic policy does not depend on N.
    The policy acts in evaluation mode, and each of its modules is given back in the mode it had.

    Raises:
        EvaluationInterrupted: `stopped`, asked before each step, came true.
    """
    specs = {k: leaf_spec(s) for k, s in flatten_space(env.observation_space, "observation").items()}
    obs = allocate(specs, (env.num_envs,))
    tensors = {k: torch.from_numpy(v) for k, v in obs.items()}
    device = next(policy.parameters()).device
    episodes: dict[int, Episode] = {}
    modes = [(module, module.training) for module in policy.modules()]
    policy.eval()
    try:
        env.reset(seeds, obs)
        with torch.inference_mode():
            while len(episodes) < n_episodes:
                if stopped():
                    raise EvaluationInterrupted
                distribution = policy.distribution({k: v.to(device) for k, v in tensors.items()})
                if deterministic:
                    samples = distribution.mode()
                else:
                    drawn = policy.draw_noise((env.num_envs,), noise)
                    samples = distribution.sample({k: v.to(device) for k, v in drawn.items()})
                actions = {k: v.cpu().numpy() for k, v in distribution.env_action(samples).items()}
                for episode in env.step(actions, obs).episodes:
                    number = episode.episode_number * env.num_envs + episode.env_index
                    if number < n_episodes:
                        episodes[number] = episode
    finally:
        for module, training in modes:
            module.training = training
    return [episodes[number] for number in sorted(episodes)]
