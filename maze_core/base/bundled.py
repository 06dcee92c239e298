"""Which distribution contains which plugin, for those published with the core; libraries contain none.

This data lets messages say what to install for a missing plugin. Other distributions need no entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

_PUBLISHED: Mapping[str, Mapping[str, str]] = {
    "maze-a2c": {"algorithm": "a2c"},
    "maze-actors": {},
    "maze-atari": {"env": "atari"},
    "maze-bc": {"algorithm": "bc"},
    "maze-compare": {"command": "runs report"},
    "maze-compile": {},
    "maze-curricula": {"callback": "curriculum", "teacher": "adr alp_gmm lessons plr success uniform"},
    "maze-cutting-2d": {"env": "cutting_2d", "policy": "cutting_best_fit"},
    "maze-devkit": {"command": "init config.schema envs envs.check plugins.new plugins.check"},
    "maze-dqn": {"algorithm": "apex dqn pqn"},
    "maze-envpool": {"env": "envpool"},
    "maze-es": {"algorithm": "es"},
    "maze-environments": {},
    "maze-events": {},
    "maze-evolution": {"algorithm": "cma_es", "searcher": "pb2 pbt"},
    "maze-export": {"command": "export", "policy": "onnx"},
    "maze-foreign-envs": {},
    "maze-fork": {"command": "fork"},
    "maze-heuristics": {"policy": "lunar_lander_heuristics"},
    "maze-impala": {"algorithm": "appo impala"},
    "maze-imitation": {"algorithm": "airl gail"},
    "maze-jax": {"env": "jax jax_games"},
    "maze-learners": {},
    "maze-local": {"runner": "local"},
    "maze-loggers": {},
    "maze-marl": {"algorithm": "qmix vdn"},
    "maze-memories": {"memory": "gru lstm window linear"},
    "maze-meta": {"algorithm": "maml"},
    "maze-minari": {"command": "trajectories.import trajectories.export"},
    "maze-offline": {"algorithm": "cql iql td3_bc"},
    "maze-mirror": {"callback": "mirror", "command": "fetch"},
    "maze-mlflow": {"callback": "mlflow"},
    "maze-notebook": {},
    "maze-models": {
        "model": "simba cnn template custom",
        "callback": "custom_critic",
        "distribution": "beta gsde squashed_gsde",
    },
    "maze-normalizers": {},
    "maze-offpolicy": {},
    "maze-onpolicy": {},
    "maze-optuna": {"searcher": "optuna"},
    "maze-pettingzoo": {"env": "pettingzoo", "callback": "self_play"},
    "maze-pictures": {},
    "maze-planning": {},
    "maze-ppo": {"algorithm": "ppo"},
    "maze-publish": {"command": "publish zoo"},
    "maze-profile": {"command": "profile"},
    "maze-ray": {"runner": "ray"},
    "maze-recordings": {"command": "rollout trajectories", "wrapper": "record"},
    "maze-rllib": {
        "algorithm": "rllib-appo rllib-bc rllib-cql rllib-dqn rllib-dreamerv3 rllib-impala rllib-iql rllib-marwil "
        "rllib-ppo rllib-sac rllib-tqc",
    },
    "maze-sac": {"algorithm": "sac sacfd flash_sac"},
    "maze-serve": {"command": "serve"},
    "maze-search": {"algorithm": "alphazero"},
    "maze-sequence": {"algorithm": "dt"},
    "maze-set-models": {"model": "set_template"},
    "maze-safety": {"callback": "constraints"},
    "maze-statistics": {},
    "maze-sweep": {"command": "sweep", "callback": "budget", "searcher": "asha grid hyperband random"},
    "maze-tensorboard": {"callback": "tensorboard"},
    "maze-td3": {"algorithm": "td3 ddpg fast_td3"},
    "maze-trpo": {"algorithm": "pg trpo"},
    "maze-video": {},
    "maze-wandb": {"callback": "wandb"},
    "maze-view": {"command": "view"},
    "maze-zoo": {},
    "maze-wrappers": {
        "wrapper": "gymnasium normalize_observations flatten one_hot transpose unsqueeze rescale_observations gray "
        "resize stack scale_reward clip_reward normalize_reward scalarize time_limit step_skip random_reset "
        "rescale_actions discretize_actions split_actions monitor select drop hide tokenize mask_from_info "
        "count_choices info_events info_to_observation sticky_actions shift_observations",
    },
}
"""By distribution and kind: names, with spaces between them."""

LIBRARIES = ("maze_onpolicy", "maze_offpolicy", "maze_models", "maze_compile", "maze_planning", "maze_local",
             "maze_actors", "maze_environments", "maze_events", "maze_fork", "maze_loggers", "maze_normalizers",
             "maze_statistics")  # fmt: skip
"""The packages of those that are libraries."""
_PUBLISHERS: Mapping[tuple[str, str], str] = {
    (kind, name): each for each, kinds in _PUBLISHED.items() for kind, names in kinds.items() for name in names.split()
}
"""The same by kind and name."""


def distributions() -> frozenset[str]:
    """Return the distributions that are published with the core."""
    return frozenset(_PUBLISHED)


@cache
def packages() -> frozenset[str]:
    """Return the Python packages of the core and of the distributions published with it."""
    return frozenset({"maze_core", *(name.replace("-", "_") for name in _PUBLISHED)})


def publisher(kind: str, name: str) -> str | None:
    """Return the distribution that contains a plugin of this kind and name, installed or not; None if unknown."""
    return _PUBLISHERS.get((kind, name))


def published(kind: str) -> list[str]:
    """Return the names of a kind's plugins that are published with the core in other distributions."""
    return [name for kinds in _PUBLISHED.values() for name in kinds.get(kind, "").split()]
