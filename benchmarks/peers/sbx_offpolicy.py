"""Speed of SAC, TD3 or DQN in SBX, compiled by JAX: `python sbx_offpolicy.py SETTINGS_AS_JSON` prints one line of JSON.

It runs on one core, as the others have one thread. What was compiled during the warm-up does not count.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402
import sbx  # noqa: E402
from sb3_offpolicy import arguments, measure  # noqa: E402


def wait(model: Any) -> None:
    """Wait for the updates that were dispatched."""
    jax.block_until_ready(model.policy.qf_state.params)


def main() -> None:
    settings = json.loads(sys.argv[1])
    measure(
        {"dqn": sbx.DQN, "sac": sbx.SAC, "td3": sbx.TD3}[settings["algorithm"]](**arguments(settings)), settings, wait
    )


if __name__ == "__main__":
    main()
