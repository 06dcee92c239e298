"""Speed of PPO on an Atari game in Maze: `python ours_pong.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import sys

from ours import measure
from ours_onpolicy import PPO_ONLY, SAME_NAME


def main() -> None:
    settings = json.loads(sys.argv[1])
    epochs, remainder = divmod(settings["measured_updates"], settings["warmup_updates"])
    if remainder:
        raise ValueError("measured_updates must be a multiple of warmup_updates")
    overrides = {
        **{f"algorithm.{name}": settings[name] for name in (*SAME_NAME, *PPO_ONLY, "num_envs")},
        "algorithm.epoch_length": settings["warmup_updates"],
        "algorithm.n_epochs": 1 + epochs,
        "env.name": "atari",
        "env.id": settings["env"],
        "env.sticky_actions": settings["sticky_actions"],
        "env.stack": settings["stack"],
        "env.threads": settings["threads"],
        "evaluation.max_episode_steps": 10,
        "model.name": "cnn",
        "model.critic": "shared",
        "model.image_precision": settings["image_precision"],
        "threads": settings["threads"],
    }
    print(json.dumps(measure(settings, overrides)))


if __name__ == "__main__":
    main()
