"""Learning of SBX, compiled by JAX, evaluated at intervals: `python sbx_time_to_score.py SETTINGS_AS_JSON`.

Prints what `sb3_time_to_score.py` does. It runs on one core, as the others have one thread.
"""

from __future__ import annotations

import json
import os
import sys

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import sbx  # noqa: E402
from sb3_time_to_score import learn  # noqa: E402

if __name__ == "__main__":
    learn({"sac": sbx.SAC, "td3": sbx.TD3}, json.loads(sys.argv[1]), {})
