"""RLlib's most common parameters: those that are flags of the command, with limits and descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Flag:
    """A parameter of RLlib that is a flag."""

    text: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    optional: bool = False
    """True if it may be `none` where RLlib has a value."""


_POSITIVE, _NOT_NEGATIVE = {"gt": 0}, {"ge": 0}
_BATCH = "Environment steps per training batch, or recorded steps."

FLAGS: Mapping[str, Flag] = {
    "num_envs_per_env_runner": Flag("Environments that each of RLlib's env runners steps in parallel.", _POSITIVE),
    "num_learners": Flag("Processes that learn beside that of the run; 0: that of the run alone.", _NOT_NEGATIVE),
    "lr": Flag("Learning rate of Adam, or a schedule: `[[0, 1e-3], [100000, 0]]` by environment steps.", _POSITIVE),
    "actor_lr": Flag("Learning rate of the policy, or a schedule.", _POSITIVE),
    "critic_lr": Flag("Learning rate of the critics, or a schedule.", _POSITIVE),
    "alpha_lr": Flag("Learning rate of the entropy's weight, or a schedule.", _POSITIVE),
    "value_lr": Flag("Learning rate of the state value, or a schedule.", _POSITIVE),
    "gamma": Flag("Discount factor.", {"ge": 0, "le": 1}),
    "lambda_": Flag("Decay of generalised advantage estimation.", {"ge": 0, "le": 1}),
    "tau": Flag("Rate at which target networks follow.", {"gt": 0, "le": 1}),
    "train_batch_size_per_learner": Flag(_BATCH, _POSITIVE),
    "minibatch_size": Flag("Rows per gradient step.", _POSITIVE),
    "num_epochs": Flag("Passes over each training batch.", _POSITIVE),
    "rollout_fragment_length": Flag("Steps per trajectory; `auto`: as the batch needs them.", _POSITIVE),
    "clip_param": Flag("Clip range of the probability ratio of the new to the old policy, around 1.", _POSITIVE),
    "vf_clip_param": Flag("Clip value of the critic's squared error; larger errors have no gradient.", _POSITIVE),
    "vf_loss_coeff": Flag("Weight of the critic's squared error.", _NOT_NEGATIVE),
    "vf_coeff": Flag("Weight of the critic's squared error.", _NOT_NEGATIVE),
    "entropy_coeff": Flag("Weight of the entropy bonus, or a schedule: `[[0, 0.01], [1000, 0]]`.", _NOT_NEGATIVE),
    "use_kl_loss": Flag("Add the KL divergence from the old policy to the loss."),
    "kl_coeff": Flag(
        "Initial weight of the KL divergence from the old policy; RLlib adapts it to reach `kl_target`.", _NOT_NEGATIVE
    ),
    "kl_target": Flag("Target of the KL divergence from the old policy.", _POSITIVE),
    "beta": Flag("How strongly better actions are weighted; 0 is behavioural cloning.", _NOT_NEGATIVE),
    "grad_clip": Flag("Largest global norm of the gradients; none: no clipping.", _POSITIVE, optional=True),
    "vtrace_clip_rho_threshold": Flag("Upper bound of the importance weights in the critic's targets.", _POSITIVE),
    "vtrace_clip_pg_rho_threshold": Flag("Upper bound of the importance weights in the policy gradient.", _POSITIVE),
    "n_step": Flag("Steps of the returns.", _POSITIVE),
    "double_q": Flag("Select the next action with the network and evaluate it with the target network."),
    "dueling": Flag("Compute action values as a state value plus advantages; the state value is the model's critic."),
    "twin_q": Flag("Use two critics and take the smaller value."),
    "initial_alpha": Flag("Initial weight of the entropy.", _POSITIVE),
    "target_network_update_freq": Flag(
        "Environment steps (APPO: updates) between updates of the target network.", _NOT_NEGATIVE
    ),
    "num_steps_sampled_before_learning_starts": Flag("Environment steps before learning begins.", _NOT_NEGATIVE),
    "training_intensity": Flag(
        "Rows learned from per environment step; none: one batch per round of steps.", _POSITIVE
    ),
    "training_ratio": Flag("Rows learned from per environment step.", _POSITIVE),
    "model_size": Flag("Size of the networks, from `nano` and `XS` to `XL`."),
}
