"""Speed of PPO on environments in JAX: `python ours_jax.py SETTINGS_AS_JSON` prints one line of JSON.

The settings name the environment as gymnax does, so that peers that compile the environment too take the same ones.
"""

from __future__ import annotations

import json
import sys

from ours import measure
from ours_onpolicy import overrides


def main() -> None:
    settings = json.loads(sys.argv[1])
    settings["env"] = f"gymnax:{settings['env']}"
    more = overrides(settings)
    del more["env.vectorization"]
    if "tensors" in settings:
        more["env.tensors"] = settings["tensors"]
    print(json.dumps(measure(settings, more)))


if __name__ == "__main__":
    main()
