"""Speed of ES in Maze, evaluation counted: `python ours_es.py SETTINGS_AS_JSON` prints one line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path

from maze_core import RunContext


def main() -> None:
    """A whole run with the preset that ships, from the first step to the final evaluation."""
    settings = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        context = RunContext(
            settings["env"],
            "es",
            run_dir=Path(folder) / "run",
            seed=settings["seed"],
            silent=True,
            overrides={"callbacks.early_stopping.patience": 0},
        )
        summary = context.train()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rate = summary.env_steps / summary.seconds
    result = {"env_steps_per_second": rate, "env_steps": summary.env_steps, "seconds": summary.seconds}
    print(json.dumps({**result, "peak_rss_kib": peak, "final_return": summary.final_evaluation["eval/return_mean"]}))


if __name__ == "__main__":
    main()
