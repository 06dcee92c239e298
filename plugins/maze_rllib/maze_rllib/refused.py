"""RLlib's parameters that cannot be set here: why, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Reason(NamedTuple):
    """Why a parameter cannot be set, and what to do next."""

    why: str
    hint: str = ""


def _each(names: str, why: str, hint: str = "") -> dict[str, Reason]:
    return dict.fromkeys(names.split(), Reason(why, hint))


_RECORD = "Next: maze rollout --record, or --wrappers record"
_DATASET = "Next: --dataset, a folder that maze rollout --record or maze trajectories import wrote"

REFUSED: Mapping[str, Reason] = {
    "env": Reason("it is the run's own", "Next: --env"),
    "env_config": Reason("it is env.kwargs", "Next: --set env.kwargs.NAME=VALUE"),
    **_each("observation_space action_space", "it is the environment's"),
    "framework": Reason("Maze's models are torch's"),
    **_each("tf_session_args local_tf_session_args", "it is for TensorFlow, and Maze's models are torch's"),
    "rl_module_spec": Reason(
        "it is the run's model", "Next: --set model.hidden=[64,64]; or --rllib-model and algorithm.model_config"
    ),
    "model": Reason("it belongs to RLlib's old interface", "Next: --rllib-model, and set algorithm.model_config"),
    **_each("create_local_env_runner create_env_on_local_worker", "the runner decides it", "Next: --runner local"),
    "num_env_runners": Reason("the runner decides it", "Next: --runner local --set runner.workers=2"),
    "env_runner_cls": Reason("Maze reports episodes and errors through one of its own"),
    "remote_worker_envs": Reason("Maze steps its environments itself", "Next: --runner local"),
    "gym_env_vectorize_mode": Reason("Maze steps its environments itself", "Next: --runner local"),
    "num_gpus": Reason("it belongs to RLlib's old interface", "Next: --set algorithm.num_gpus_per_learner=1"),
    "train_batch_size": Reason(
        "RLlib would divide it among the learners, unless the batch of each is set",
        "Next: --train-batch-size-per-learner",
    ),
    **_each("log_sys_usage log_level", "Maze reports what matters"),
    "seed": Reason("the run's own seed decides it", "Next: --seed"),
    "explore": Reason(
        "RLlib learns from sampled actions, with their probabilities",
        "Next: maze eval --deterministic, for evaluations",
    ),
    "use_critic": Reason("the advantages need the critic", "Next: --vf-loss-coeff 0, to leave out its loss"),
    **_each(
        "env_to_module_connector learner_connector add_default_connectors_to_env_to_module_pipeline "
        "add_default_connectors_to_learner_pipeline add_default_connectors_to_module_to_env_pipeline "
        "broadcast_env_runner_states merge_env_runner_states episode_lookback_horizon episodes_to_numpy",
        "Maze's models see observations as they are, and its connectors have no state",
        "Next: --wrappers, which change observations, actions and rewards",
    ),
    **_each(
        "module_to_env_connector normalize_actions",
        "Maze's distributions give actions in the environment's units",
        "Next: --set model.distribution=squashed_gaussian, which keeps within the bounds",
    ),
    "clip_actions": Reason("Maze clips actions where they enter the environment"),
    "restart_failed_sub_environments": Reason("an environment that raises ends the run", "Next: maze resume RUN"),
    **_each(
        "restart_failed_env_runners ignore_env_runner_failures num_consecutive_env_runner_failures_tolerance "
        "env_runner_health_probe_timeout_s validate_env_runners_after_construction",
        "a worker that dies ends the run, with its checkpoint whole",
        "Next: maze resume RUN",
    ),
    **_each(
        "input_ input_config offline_data_class input_filesystem input_filesystem_kwargs",
        "Maze reads its own recordings",
        _DATASET,
    ),
    **_each("output output_filesystem output_filesystem_kwargs", "Maze writes its own recordings", _RECORD),
    "dataset_num_iters_per_learner": Reason("an iteration is one batch", "Next: --epoch-length, batches per epoch"),
    "metrics_num_episodes_for_smoothing": Reason(
        "Maze reports every episode that ends in an epoch", "Next: --epoch-length, for longer epochs"
    ),
    "algorithm_config_overrides_per_module": Reason(
        "a run has one policy, also for several agents that share it", "Next: set the parameters themselves"
    ),
    **_each(
        "torch_compile_learner torch_compile_learner_dynamo_backend torch_compile_learner_dynamo_mode "
        "torch_compile_learner_what_to_compile",
        "RLlib compiles nothing by its default, forward_train, and only the whole update otherwise",
        "Next: maze train ppo, whose steps Maze compiles",
    ),
    "torch_ddp_kwargs": Reason("RLlib decides how learners exchange their gradients"),
    **_each("_env_runners_only _skip_learners", "a run without learning is none", "Next: maze rollout"),
    **_each(
        "num_aggregator_actors_per_learner max_requests_in_flight_per_aggregator_actor num_gpu_loader_threads",
        "batches are made where the policy learns",
    ),
    **_each(
        "burnin_len burn_in_len",
        "RLlib reads it for networks with memory alone, and fails with others",
        "Next: maze train dqn --set model.memory=lstm, whose replay burns in",
    ),
    **_each(
        "use_curiosity intrinsic_rewards_scale",
        "RLlib refuses it, as not tested yet",
        "Next: a plugin in the rewards, docs/guide/extending.md",
    ),
    "bc_logstd_coeff": Reason("RLlib reads it from its own Gaussian alone, and fails with other distributions"),
}
"""Parameters that Maze sets itself, or with which RLlib fails, though its algorithms read them."""

ELSEWISE = (
    "log_level",
    "log_sys_usage",
    "normalize_actions",
    "num_env_runners",
    "restart_failed_env_runners",
    "train_batch_size",
    "validate_env_runners_after_construction",
)
"""Of these not even RLlib's default is accepted, since Maze does otherwise."""

FORMER: Mapping[str, str] = {"num_workers": "num_env_runners", "sgd_minibatch_size": "minibatch_size"}
"""Former names of parameters that RLlib itself has forgotten, with the present ones."""

UNREAD: Mapping[str, Reason] = {
    **_each(
        "observation_filter update_worker_filter_stats use_worker_filter_stats synchronize_filter",
        "",
        "Next: --wrappers normalize_observations",
    ),
    "clip_rewards": Reason("", "Next: --wrappers clip_reward, or normalize_reward"),
    **_each("optimizer adam_epsilon opt_type momentum decay", "it learns with Adam", "Next: lr and grad_clip"),
    **_each(
        "minibatch_size num_epochs shuffle_batch_per_epoch",
        "an update is one batch of train_batch_size_per_learner rows",
        "Next: --train-batch-size-per-learner and --epoch-length",
    ),
    **_each("lr_schedule", "", "Next: --lr '[[0, 1e-3], [100000, 0]]', by environment steps"),
    **_each("entropy_coeff_schedule", "", "Next: --entropy-coeff '[[0, 0.01], [100000, 0]]', by environment steps"),
    **_each("exploration_config", "", "Next: --set algorithm.epsilon, of rllib-dqn; others sample from their policy"),
    "train_batch_size_per_learner": Reason(
        "its batch is batch_size_B sequences of batch_length_T steps", "Next: --set algorithm.batch_size_B=16"
    ),
    **_each("use_gae", "it always estimates advantages with lambda", "Next: --gae-lambda 1, for whole returns"),
    **_each("_lr_vf _separate_vf_optimizer", "critic and policy learn with one rate", "Next: --vf-loss-coeff"),
    **_each("hiddens", "", "Next: --set model.hidden=[256]; or --rllib-model and algorithm.model_config"),
    **_each(
        "policy_model_config q_model_config",
        "",
        "Next: --set model.hidden=[256,256] and --critic-hidden; or --rllib-model and algorithm.model_config",
    ),
    **_each(
        "delay_between_env_runner_restarts_s max_num_env_runner_restarts env_runner_restore_timeout_s "
        "env_runner_state_server_max_concurrency",
        "a worker that dies ends the run, with its checkpoint whole",
        "Next: maze resume RUN",
    ),
    **_each(
        "custom_resources_for_main_process num_cpus_for_main_process placement_strategy local_gpu_idx _fake_gpus "
        "num_multi_gpu_tower_stacks",
        "the main process is that of the run",
        "Next: --device, num_gpus_per_learner, and those that end in _per_env_runner or _per_learner",
    ),
    **_each("_use_msgpack_checkpoints store_buffer_in_checkpoints", "Maze writes its own checkpoints"),
    **_each("render_env", "", "Next: maze view RUN, or maze rollout RUN --video"),
    **_each(
        "keep_per_episode_custom_metrics metrics_episode_collection_timeout_s sampler_perf_stats_ema_coef",
        "Maze reports every episode that ends in an epoch",
        "Next: --epoch-length, for longer epochs",
    ),
    **_each(
        "torch_compile_worker torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode",
        "",
        "Next: maze train ppo, whose steps Maze compiles",
    ),
    **_each("is_atari preprocessor_pref", "", "Next: --env ALE/Pong-v5, whose frames Maze prepares by wrappers"),
    **_each("action_mask_key", "", "Maze finds the masks in the observation space: docs/guide/environments.md"),
    **_each("eager_max_retraces eager_tracing enable_tf1_exec_eagerly", "it is for TensorFlow"),
}
"""Parameters that RLlib's algorithms do not read, unless the data say so."""

_OFFLINE = (
    "actions_in_input_normalized",
    "ignore_final_observation",
    "iter_batches_kwargs",
    "map_batches_kwargs",
    "offline_sampling",
    "postprocess_inputs",
    "shuffle_buffer_size",
)
_ONE_REQUEST = _each(
    "max_requests_in_flight_per_env_runner max_requests_in_flight_per_learner", "it waits for each answer"
)
_NEVER_SAMPLED = {
    "min_sample_timesteps_per_iteration": Reason("it steps no environments", "Next: --epoch-length"),
    "num_learners": Reason("the process of the run reads the recordings, and learns"),
}
WITHOUT_EFFECT: Mapping[str, Mapping[str, Reason]] = {
    "BC": {
        **_NEVER_SAMPLED,
        **_each(
            "beta gamma vf_coeff moving_average_sqd_adv_norm_start moving_average_sqd_adv_norm_update_rate",
            "BC weighs all actions alike",
            "Next: maze train rllib-marwil, which prefers the better ones",
        ),
    },
    "CQL": {**_NEVER_SAMPLED, "replay_buffer_config": Reason("the recordings are what it learns from", _DATASET)},
    "DQN": {**_ONE_REQUEST, **_each("noisy sigma0", "RLlib has no noisy layers any more", "Next: algorithm.epsilon")},
    "DreamerV3": {
        **_ONE_REQUEST,
        "model_config": Reason("it describes its networks by their size", "Next: --model-size S"),
        **_each(
            "report_images_and_videos report_individual_batch_item_stats report_dream_data",
            "Maze logs numbers alone",
            "Next: maze view RUN",
        ),
        "train_actor": Reason("RLlib fails without the actor's loss"),
    },
    "IQL": _NEVER_SAMPLED,
    "MARWIL": _NEVER_SAMPLED,
    "PPO": _ONE_REQUEST,
    "SAC": _ONE_REQUEST,
    "TQC": _ONE_REQUEST,
}
"""Parameters that an algorithm reads without effect, or with which it fails."""


def unread(title: str, name: str) -> Reason:
    """Return why a parameter that an algorithm does not read, or reads for nothing, cannot be set."""
    if idle := WITHOUT_EFFECT.get(title, {}).get(name):
        return Reason(f"has no effect in RLlib's {title}: {idle.why}", idle.hint)
    known = UNREAD.get(name)
    if known is None and name.startswith("output"):
        known = Reason("Maze writes its own recordings", _RECORD)
    if known is None and (name.startswith(("input", "prelearner", "materialize")) or name in _OFFLINE):
        known = Reason("Maze reads its own recordings", _DATASET)
    why, hint = known or Reason("")
    return Reason(f"RLlib's {title} does not read it" + (f": {why}" if why else ""), hint)


OF_NETWORKS = _each(
    "use_lstm lstm_cell_size max_seq_len fcnet_hiddens fcnet_activation conv_filters vf_share_layers",
    "belongs to RLlib's own network",
    "Next: --rllib-model, and set it in algorithm.model_config",
)
"""Parameters of RLlib's networks by their bare names."""

METHODS: Mapping[str, Reason] = {
    "callbacks": Reason("Maze's callbacks and hooks take its place", "Next: --set callbacks.NAME.name=PLUGIN"),
    "evaluation": Reason("Maze evaluates, as the part `evaluation` says", "Next: --set evaluation.n_episodes=20"),
    "multi_agent": Reason("a run has one policy, also for several agents that share it"),
    "checkpointing": Reason("Maze writes its own checkpoints", "Next: maze resume RUN, or maze export RUN"),
    "api_stack": Reason("Maze builds on RLlib's new interface"),
    "python_environment": Reason("environment variables belong to the command", "Next: NAME=VALUE maze train …"),
}
"""The same for all parameters of a method of RLlib's configuration."""
