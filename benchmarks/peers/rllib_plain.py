"""An algorithm of RLlib without Maze: `python rllib_plain.py ALGORITHM ENV STEPS SEED` prints one line of JSON.

RLlib's defaults and default network, environments and learner in one process, as `maze train rllib-…` has them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
warnings.filterwarnings("ignore")

import ray  # noqa: E402
from ray.tune.registry import get_trainable_cls  # noqa: E402

EPISODES = 50


def main() -> None:
    name, env, steps, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    config = (
        get_trainable_cls(name)
        .get_default_config()
        .environment(env)
        .env_runners(num_env_runners=0)
        .learners(num_learners=0)
        .debugging(seed=seed, log_level="ERROR")
        .evaluation(
            evaluation_interval=None,
            evaluation_num_env_runners=0,
            evaluation_duration=EPISODES,
            evaluation_duration_unit="episodes",
            evaluation_config={"explore": False, "seed": 1000},
        )
    )
    algorithm, done, started = config.build_algo(), 0, time.monotonic()
    while done < steps:
        done = int(algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"])
    seconds = time.monotonic() - started
    score = float(algorithm.evaluate()["env_runners"]["episode_return_mean"])
    print(json.dumps({"score": score, "steps": done, "seconds": seconds}), flush=True)
    os._exit(0)  # Ray takes seconds to end, and the figures are there


if __name__ == "__main__":
    main()
