"""What Maze calls the parameters of other libraries, for messages about unknown names."""

from __future__ import annotations

from collections.abc import Container

_ALGORITHM = {
    "actor_lr": "lr",
    "alpha": "entropy_coef",
    "anneal_lr": "lr_schedule",
    "autotune": "entropy_tuning",
    "buffer_size": "replay_buffer_size",
    "clip_coef": "clip_range",
    "clip_param": "clip_range",
    "clip_range_vf": "value_clip_range",
    "clip_vloss": "value_clip_range",
    "cuda": "device",
    "discount": "gamma",
    "discount_factor": "gamma",
    "end_e": "epsilon",
    "ent_coef": "entropy_coef",
    "entropy_coeff": "entropy_coef",
    "eps_clip": "clip_range",
    "eval_freq": "epoch_length",
    "exploration_final_eps": "epsilon",
    "exploration_fraction": "epsilon",
    "exploration_initial_eps": "epsilon",
    "grad_clip": "max_grad_norm",
    "initial_alpha": "entropy_coef",
    "lambda": "gae_lambda",
    "lambda_": "gae_lambda",
    "learning_rate": "lr",
    "learning_starts": "initial_buffer_size",
    "minibatch_size": "batch_size",
    "n_envs": "num_envs",
    "n_steps": "n_rollout_steps",
    "norm_adv": "normalize_advantages",
    "normalize_advantage": "normalize_advantages",
    "num_envs_per_env_runner": "num_envs",
    "num_epochs": "n_optimization_epochs",
    "num_gpus_per_learner": "device",
    "num_sgd_iter": "n_optimization_epochs",
    "num_steps": "n_rollout_steps",
    "num_steps_sampled_before_learning_starts": "initial_buffer_size",
    "policy_frequency": "policy_delay",
    "policy_noise": "target_noise",
    "q_lr": "critic_lr",
    "qf_learning_rate": "critic_lr",
    "rew_norm": "normalize_rewards",
    "rollout_fragment_length": "n_rollout_steps",
    "sgd_minibatch_size": "batch_size",
    "start_e": "epsilon",
    "start_timesteps": "initial_buffer_size",
    "target_network_frequency": "target_update_interval",
    "target_network_update_freq": "target_update_interval",
    "target_policy_noise": "target_noise",
    "train_frequency": "n_rollout_steps",
    "train_freq": "n_rollout_steps",
    "update_epochs": "n_optimization_epochs",
    "vf_coef": "value_loss_coef",
    "vf_loss_coeff": "value_loss_coef",
    "warmup_steps": "initial_buffer_size",
}
_OTHERS = {
    "activation_fn": "model.activation",
    "env_id": "env.id",
    "evaluation_duration": "evaluation.n_episodes",
    "fcnet_activation": "model.activation",
    "fcnet_hiddens": "model.hidden",
    "hidden_size": "model.hidden",
    "hidden_sizes": "model.hidden",
    "log_std": "model.log_std_init",
    "max_epoch": "algorithm.n_epochs",
    "n_eval_episodes": "evaluation.n_episodes",
    "net_arch": "model.hidden",
    "norm_obs": "model.normalize_observations",
    "normalize_obs": "model.normalize_observations",
    "num_env_runners": "runner.workers",
    "num_rollout_workers": "runner.workers",
    "num_timesteps": "steps",
    "num_workers": "runner.workers",
    "policy_kwargs": "model",
    "tensorboard_log": "callbacks.tensorboard",
    "test_num": "evaluation.n_episodes",
    "time_steps": "steps",
    "total_steps": "steps",
    "total_timesteps": "steps",
    "track": "callbacks.wandb.project",
    "use_lstm": "model.memory",
    "use_wandb": "callbacks.wandb.project",
    "wandb": "callbacks.wandb.project",
    "wandb_project": "callbacks.wandb.project",
    "wandb_project_name": "callbacks.wandb.project",
}
PEERS = {**{name: f"algorithm.{ours}" for name, ours in _ALGORITHM.items()}, **_OTHERS}
"""Paths of parameters by the names that Stable-Baselines3, CleanRL, RLlib and Tianshou have for them."""
_PARTS = ("algorithm", "model", "env", "evaluation", "runner")
# Where a name without its part is looked for, in this order.


def bare(name: str) -> str:
    """Return a name as the tables have it: `--Learning-Rate` becomes `learning_rate`."""
    return name.strip().lstrip("-").replace("-", "_").lower()


def meant(name: str, known: Container[str]) -> str | None:
    """Return the path that someone who types a name without its part may mean; None where there is none.

    Args:
        name: such as `learning_rate`, `--learning-rate` or `lr`.
        known: the paths of the parts `algorithm`, `model`, `env`, `evaluation` and `runner`.
    """
    own = next((path for part in _PARTS if (path := f"{part}.{bare(name)}") in known), None)
    theirs = PEERS.get(bare(name))
    if own is not None or theirs is None:
        return own
    return theirs if theirs in known or not theirs.startswith(("algorithm.", "env.")) else None
