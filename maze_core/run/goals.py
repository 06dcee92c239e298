"""The score of a run: by any metric, or what its algorithm says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from maze_core.base.errors import ConfigError
from maze_core.base.metrics import spellings
from maze_core.base.terminal_text import shown
from maze_core.learn import answers

if TYPE_CHECKING:
    from maze_core.run.run import Run


def score_of(run: Run, metrics: dict[str, float]) -> float:
    """Return the score of an epoch: higher is better, nan means unknown.

    Raises:
        ConfigError: no epoch has the metric that the run names.
    """
    asked = run.config.score
    if asked is None:
        return answers.score(run.algorithm, metrics)
    found = [metrics[name] for name in spellings(asked.metric) if name in metrics]
    if not found and run.state.best_score is None:
        from maze_core.plugins.config.explain import nearest  # imports pydantic

        # An event without any value has no mean yet, but other statistics.
        event = f"{asked.metric.rpartition('/')[0]}/" if "/event/" in asked.metric else None
        if event is None or not any(name.startswith(event) for name in metrics):
            hint = nearest(asked.metric, sorted(name for name in metrics if "/" in name))
            raise ConfigError(f"no epoch has the metric {shown(asked.metric)}", "score.metric", hint)
    score = found[0] if found else math.nan
    return score if asked.maximize else -score
