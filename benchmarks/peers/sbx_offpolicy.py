"""Speed of off-policy algorithms in SBX, compiled by JAX: `python sbx_offpolicy.py SETTINGS_AS_JSON`.

Prints one line of JSON.

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
    policy = model.policy
    critic = policy.qf1_state if isinstance(model, sbx.TQC) else policy.qf_state
    jax.block_until_ready(critic.params)


def main() -> None:
    settings = json.loads(sys.argv[1])
    own = arguments(settings)
    if settings["algorithm"] == "crossq":  # it has no targets that follow
        del own["tau"]
    kinds = {"dqn": sbx.DQN, "sac": sbx.SAC, "td3": sbx.TD3, "tqc": sbx.TQC, "crossq": sbx.CrossQ}
    measure(kinds[settings["algorithm"]](**own), settings, wait)


if __name__ == "__main__":
    main()
