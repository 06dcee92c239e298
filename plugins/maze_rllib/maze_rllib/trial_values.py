"""Plausible other values of RLlib's parameters, with which each is tried once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maze_rllib.parameters import data

_VALUES: Mapping[str, Any] = {
    "batch_length_T": 6,
    "batch_mode": "complete_episodes",
    "broadcast_interval": 2,
    "clip_param": 0.1,
    "epsilon": 0.3,
    "gae_lambda": 0.5,
    "gamma": 0.5,
    "grad_clip_by": "norm",
    "initial_alpha": 0.3,
    "lambda_": 0.3,
    "max_requests_in_flight_per_env_runner": 2,
    "max_requests_in_flight_per_learner": 2,
    "min_sample_timesteps_per_iteration": 64,
    "min_time_s_per_iteration": 0.5,
    "min_train_timesteps_per_iteration": 300,
    "minibatch_size": 50,
    "model_config": {"fcnet_hiddens": [7]},
    "model_size": "XS",
    "moving_average_sqd_adv_norm_start": 50.0,
    "n_step": 3,
    "num_actions": 4,
    "num_epochs": 3,
    "num_gpus_per_env_runner": 0,
    "num_gpus_per_learner": 0,
    "num_learners": 1,
    "num_steps_sampled_before_learning_starts": 30,
    "rollout_fragment_length": 16,
    "sample_timeout_s": 30.0,
    "symlog_obs": False,
    "target_network_update_freq": 1,
    "td_error_loss_fn": "mse",
    "timeout_s_sampler_manager": 0.2,
    "train_batch_size_per_learner": 200,
    "training_intensity": 3.0,
    "training_ratio": 16.0,
}
_WITH: Mapping[str, Mapping[str, Any]] = {
    "grad_clip_by": {"grad_clip": 0.5},
    "kl_coeff": {"use_kl_loss": True},
    "kl_target": {"use_kl_loss": True},
    "minibatch_size": {"train_batch_size_per_learner": 200},
    "num_atoms": {"rllib_model": True},
    "simple_queue_size": {"use_circular_buffer": False},
    "target_network_update_freq": {"circular_buffer_num_batches": 1, "circular_buffer_iterations_per_batch": 1},
    "v_max": {"rllib_model": True, "num_atoms": 5},
    "v_min": {"rllib_model": True, "num_atoms": 5},
}
"""What else must be set for a parameter to have an effect."""
_BY_KIND = {"float": 0.25, "int": 5, "schedule": [[0, 0.01], [100, 0.0]], "dict": {"key": 1}}


def another(title: str, name: str) -> dict[str, Any]:
    """Return values that set a parameter to another one than its default."""
    facts = {**data()["any"], **data()[title]}
    words, default = facts[name]
    besides = {each: value for each, value in _WITH.get(name, {}).items() if each in facts or each == "rllib_model"}
    if isinstance(default, bool):
        value: Any = not default
    elif name == "replay_buffer_config":
        value = {**default, "capacity": 5000}
    else:
        value = _VALUES.get(name, next((_BY_KIND[word] for word in _BY_KIND if word in words.split("|")), None))
    ours = "gae_lambda" if name == "lambda_" else name
    return {**besides, ours: value}
