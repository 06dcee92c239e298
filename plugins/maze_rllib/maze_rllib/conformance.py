"""Trials of RLlib's algorithms for the conformance kit: small sizes, and checks that RLlib cannot pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from maze_devkit import Case, Trial

if TYPE_CHECKING:
    from maze_rllib.config import RLlibConfig

_QUEUED = {"train_batch_size_per_learner": 100, "rollout_fragment_length": 10}
_REPLAYED = {
    "train_batch_size_per_learner": 16,
    "num_steps_sampled_before_learning_starts": 16,
    "min_sample_timesteps_per_iteration": 16,
    "min_time_s_per_iteration": 0,
    # The trees of RLlib's own size take a third of a second for each run.
    "replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 4096},
}
_SMALL = {"model_config": {"fcnet_hiddens": [32], "head_fcnet_hiddens": [32]}}
_RECORDED = {"train_batch_size_per_learner": 64}

SIZES: Mapping[str, Mapping[str, Any]] = {
    "PPO": {"train_batch_size_per_learner": 128, "minibatch_size": 64, "num_epochs": 2},
    "IMPALA": _QUEUED,
    "APPO": _QUEUED,
    "DQN": _REPLAYED,
    "SAC": {**_REPLAYED, "critic_hidden": [32], "actor_lr": 3e-3, "critic_lr": 3e-3, "alpha_lr": 3e-3},
    "TQC": {**_REPLAYED, "actor_lr": 3e-3, "critic_lr": 3e-3, "alpha_lr": 3e-3, **_SMALL},
    "DreamerV3": {"model_size": "nano", "batch_size_B": 2, "batch_length_T": 8, "horizon_H": 3, "training_ratio": 8},
    "CQL": {**_RECORDED, "bc_iters": 1},
    "IQL": _RECORDED,
    "BC": _RECORDED,
    "MARWIL": _RECORDED,
}
"""Parameters with which an iteration of each algorithm is short."""
_RESUMES = dict.fromkeys(
    ("resumes", "forks"), "RLlib resumes with new episodes and empty replay buffers, see docs/algorithms/rllib.md"
)
_CRITICS = {"critic_leaves": "what RLlib's own critics learn is not among the networks of the run"}
_BY_SEED = "this check compares runs with the same seed, and those differ"
_REPLAY = {"deterministic": "RLlib draws from its replay buffer without a seed", "truncation": _BY_SEED}
_QUEUE = {
    "deterministic": "RLlib's learner uses whatever is in its queue at that moment",
    "truncation": _BY_SEED,
}
_OWN = {"spaces": "RLlib's own networks take images of some sizes only, and tests run each algorithm with them"}
_WAIVED: Mapping[str, Mapping[str, str]] = {
    "PPO": {"truncation": "RLlib standardises advantages over rows of its own too, which stand for episodes' ends"},
    "IMPALA": _QUEUE,
    "APPO": _QUEUE,
    "DQN": _REPLAY,
    "SAC": _REPLAY,
    "TQC": {**_REPLAY, **_OWN, "learns": "the few steps of the check are not always enough for its distributions"},
    "DreamerV3": {**_REPLAY, **_OWN, "learns": "its world model needs more steps than the check takes"},
    "CQL": {
        **_OWN,
        "deterministic": "RLlib draws the actions of its penalty without a seed",
        "learns": "RLlib's CQL takes minutes for what the check asks",
    },
    "IQL": _OWN,
}


def trial(case: Case) -> Trial:
    """Use small sizes, and one Ray for all runs."""
    config: type[RLlibConfig] = case.plugin.Config
    parameters = dict(SIZES[config.title])
    if "dataset" in config.model_fields:
        parameters["dataset"] = str(case.demonstrations())
    waived = {**_RESUMES, **_CRITICS, **_WAIVED.get(config.title, {})}
    return Trial(parameters=parameters, waived=waived, shared=one_ray)


@contextmanager
def one_ray() -> Iterator[None]:
    """Share one Ray among all runs inside the block."""
    from maze_rllib.session import RaySession, check_installed

    check_installed()
    with closing(RaySession(num_cpus=2)):
        yield
