"""What Maze calls the parameters of other libraries, for messages about unknown names."""

from __future__ import annotations

from collections.abc import Container

_THEIRS = {
    "algorithm.batch_size": "minibatch_size sgd_minibatch_size",
    "algorithm.clip_range": "clip_coef clip_param eps_clip",
    "algorithm.critic_lr": "q_lr qf_learning_rate",
    "algorithm.device": "cuda num_gpus_per_learner",
    "algorithm.entropy_coef": "alpha ent_coef entropy_coeff initial_alpha",
    "algorithm.entropy_tuning": "autotune",
    "algorithm.epoch_length": "eval_freq",
    "algorithm.epsilon": "end_e exploration_final_eps exploration_fraction exploration_initial_eps start_e",
    "algorithm.gae_lambda": "lambda lambda_",
    "algorithm.gamma": "discount discount_factor",
    "algorithm.initial_buffer_size": "learning_starts num_steps_sampled_before_learning_starts start_timesteps "
    "warmup_steps",
    "algorithm.lr": "actor_lr learning_rate",
    "algorithm.lr_schedule": "anneal_lr",
    "algorithm.max_grad_norm": "grad_clip",
    "algorithm.n_epochs": "max_epoch",
    "algorithm.n_optimization_epochs": "num_epochs num_sgd_iter update_epochs",
    "algorithm.n_rollout_steps": "n_steps num_steps rollout_fragment_length train_freq train_frequency",
    "algorithm.normalize_advantages": "norm_adv normalize_advantage",
    "algorithm.normalize_rewards": "rew_norm",
    "algorithm.num_envs": "n_envs num_envs_per_env_runner",
    "algorithm.policy_delay": "policy_frequency",
    "algorithm.replay_buffer_size": "buffer_size",
    "algorithm.target_noise": "policy_noise target_policy_noise",
    "algorithm.target_update_interval": "target_network_frequency target_network_update_freq",
    "algorithm.value_clip_range": "clip_range_vf clip_vloss",
    "algorithm.value_loss_coef": "vf_coef vf_loss_coeff",
    "callbacks.tensorboard": "tensorboard_log",
    "callbacks.wandb.project": "track use_wandb wandb wandb_project wandb_project_name",
    "env.id": "env_id",
    "evaluation.n_episodes": "evaluation_duration n_eval_episodes test_num",
    "model": "policy_kwargs",
    "model.activation": "activation_fn fcnet_activation",
    "model.hidden": "fcnet_hiddens hidden_size hidden_sizes net_arch",
    "model.log_std_init": "log_std",
    "model.memory": "use_lstm",
    "model.normalize_observations": "norm_obs normalize_obs",
    "runner.workers": "num_env_runners num_rollout_workers num_workers",
    "steps": "num_timesteps time_steps total_steps total_timesteps",
}
# By our path: the names of others for it, with spaces between them.
PEERS = {name: path for path, names in _THEIRS.items() for name in names.split()}
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
