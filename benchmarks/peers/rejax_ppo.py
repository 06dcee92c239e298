"""Speed of PPO in rejax, environment and all compiled by JAX: `python rejax_ppo.py SETTINGS_AS_JSON` prints JSON.

It runs on one core, as the others have one thread. What was compiled during the warm-up does not count.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402
from measuring import report, same_names  # noqa: E402
from rejax import PPO  # noqa: E402


def build(settings: dict[str, Any]) -> PPO:
    rows = settings["num_envs"] * settings["n_rollout_steps"]
    return PPO.create(
        env=settings["env"],
        num_envs=settings["num_envs"],
        num_steps=settings["n_rollout_steps"],
        num_epochs=settings["n_optimization_epochs"],
        num_minibatches=rows // settings["batch_size"],
        clip_eps=settings["clip_range"],
        agent_kwargs={"hidden_layer_sizes": settings["hidden"], "activation": "tanh"},
        **same_names(settings),
    )


def main() -> None:
    settings = json.loads(sys.argv[1])
    algorithm = build(settings)

    @jax.jit
    def updates(state: Any, count: int) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, state: algorithm.train_iteration(state), state)

    state = algorithm.init_state(jax.random.PRNGKey(settings["seed"]))
    state = jax.block_until_ready(updates(state, settings["warmup_updates"]))
    started = time.perf_counter()
    jax.block_until_ready(updates(state, settings["measured_updates"]))
    seconds = time.perf_counter() - started
    steps = settings["measured_updates"] * settings["num_envs"] * settings["n_rollout_steps"]
    report(steps, seconds)


if __name__ == "__main__":
    main()
