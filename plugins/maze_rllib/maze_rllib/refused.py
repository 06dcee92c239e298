"""RLlib's parameters that cannot be set here, and why."""

from __future__ import annotations

from collections.abc import Mapping

REFUSED: Mapping[str, str] = {
    "env": "it is the run's own: --env",
    "env_config": "it is env.kwargs",
    "observation_space": "it is the environment's",
    "action_space": "it is the environment's",
    "framework": "Maze's models are torch's",
    "rl_module_spec": "it is the run's model; RLlib's own network is described by model_config",
    "create_local_env_runner": "the runner decides it",
    "create_env_on_local_worker": "the runner decides it",
    "num_gpus": "it belongs to RLlib's old interface; set num_gpus_per_learner",
    "log_sys_usage": "nothing reads it",
    "log_level": "Maze reports what matters",
    "input_config": "Maze reads its own recordings",
    "num_env_runners": "the runner decides it: --runner dev has none, local and ray have runner.workers",
    "env_runner_cls": "Maze reports episodes and errors through one of its own",
    "seed": "the run's own seed decides it",
    "explore": "RLlib learns from sampled actions, with their probabilities; maze eval --deterministic takes none",
    "use_critic": "the advantages need the critic; to leave its loss out, set vf_loss_coeff to 0",
    "model": "it belongs to RLlib's old interface; with rllib_model, set model_config",
    "env_to_module_connector": "Maze's models see observations as they are",
    "module_to_env_connector": "Maze's models give actions in the environment's units",
    "learner_connector": "Maze's models see observations as they are",
    "normalize_actions": "Maze's distributions give actions in the environment's units",
    "clip_actions": "Maze clips actions where they enter the environment",
    "restart_failed_sub_environments": "an environment that raises ends the run",
    "restart_failed_env_runners": "a worker that dies ends the run, with its checkpoint whole",
    "ignore_env_runner_failures": "a worker that dies ends the run, with its checkpoint whole",
    "gym_env_vectorize_mode": "Maze steps its environments itself",
    "input_": "it is algorithm.dataset",
    "offline_data_class": "Maze reads its own recordings",
    "output": "maze rollout --record and the wrapper record write episodes",
    "output_filesystem": "Maze writes its own recordings",
    "output_filesystem_kwargs": "Maze writes its own recordings",
    "input_filesystem": "Maze reads its own recordings",
    "input_filesystem_kwargs": "Maze reads its own recordings",
    "dataset_num_iters_per_learner": "an iteration is one batch; algorithm.epoch_length says how many",
}
"""Parameters that Maze sets itself."""

METHODS: Mapping[str, str] = {
    "callbacks": "Maze's callbacks and hooks take its place",
    "evaluation": "Maze evaluates, as the part `evaluation` says",
    "multi_agent": "a run has one policy, also for several agents that share it",
    "checkpointing": "Maze writes its own checkpoints",
    "api_stack": "Maze builds on RLlib's new interface",
    "python_environment": "environment variables belong to the command: NAME=VALUE maze train …",
}
"""The same for all parameters of a method of RLlib's configuration."""
