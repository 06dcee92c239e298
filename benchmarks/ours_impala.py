"""Speed of IMPALA in Maze: `python ours_impala.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from ours import measure


def overrides(impala: dict[str, Any], hidden: list[int]) -> dict[str, Any]:
    """The first epoch is the warm-up, as many epochs of the same length are measured."""
    chosen = {f"algorithm.{name}": value for name, value in impala.items()}
    return {**chosen, "model.hidden": hidden, "model.normalize_observations": False}


def main() -> None:
    settings = json.loads(sys.argv[1])
    chosen = {**settings, "algorithm": "impala"}
    print(json.dumps(measure(chosen, overrides(settings["impala"], settings["hidden"]), runner="local")))


if __name__ == "__main__":
    main()
