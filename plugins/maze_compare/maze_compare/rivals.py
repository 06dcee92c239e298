"""Scores of heuristics in the environments of runs, to compare the runs with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_compare.groups import Group, number, spread
from maze_compare.records import RunRecord
from maze_core import ConfigError
from maze_core.base.terminal_text import counted

if TYPE_CHECKING:
    from maze_core.run.episodes.saved_evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class Rival:
    """What a heuristic reached in an environment."""

    policy: str
    run: RunRecord
    """The run whose environment, wrappers and evaluation these are."""
    metric: str
    value: float
    episodes: int
    seed: int

    @property
    def title(self) -> str:
        """Its name and its score."""
        return f"{self.policy} on {self.run.env}: {number(self.value)}"

    def sentence(self, groups: Mapping[str, Group] | None = None, *, minimize: bool = False) -> str:
        """Return one line: the score, and which of the groups, by name, have a better mean of the final values."""
        better: list[str] = []
        others: list[str] = []
        for name, each in (groups or {}).items():
            final = spread(run.value(self.metric, "last") for run in each.runs)
            if final is not None and _played(each.runs[0]) == _played(self.run):
                wins = final.mean < self.value if minimize else final.mean > self.value
                (better if wins else others).append(name)
        parts = [f"policy {self.title} over {counted(self.episodes, 'episode')}"]
        parts += [f"better: {', '.join(better)}"] if better else []
        parts += [f"not better: {', '.join(others)}"] if others else []
        return "; ".join(parts)

    def plain_facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "policy": self.policy,
            "env": self.run.env,
            "run": str(self.run.path),
            "metric": self.metric,
            "value": self.value,
            "episodes": self.episodes,
            "seed": self.seed,
        }


def rivals(policies: Iterable[str], runs: Sequence[RunRecord], metric: str) -> list[Rival]:
    """Let policies play the evaluation of each environment that the runs have; return their scores.

    Args:
        policies: policy plugins, classes `module:Class` or exported files.
        runs: those to compare with.
        metric: of evaluations, such as `eval/return_mean`.

    Raises:
        ConfigError: the metric is no evaluation's; there is no such policy, or it does not fit an environment.
    """
    from maze_core.run.episodes.saved_evaluation import evaluate_saved

    found: list[Rival] = []
    for policy in policies:
        if not metric.startswith("eval/"):
            raise ConfigError(f"a policy only has metrics of evaluations (eval/…), not {metric}", "--policy")
        for run in _settings(runs):
            played = evaluate_saved(run.path, seed=run.seed, policy=policy)
            found.append(_rival(policy, run, metric, played))
    return found


def _rival(policy: str, run: RunRecord, metric: str, played: Evaluation) -> Rival:
    from maze_core.plugins.config.explain import nearest

    if metric not in played.metrics:
        raise ConfigError(f"evaluations have no {metric}; {nearest(metric, sorted(played.metrics))}", "--metric")
    return Rival(policy, run, metric, played.metrics[metric], round(played.metrics["eval/episodes"]), played.seed)


def _settings(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return a run of each environment, with its wrappers and evaluation: a finished one if there is one."""
    found: dict[str, RunRecord] = {}
    for run in sorted(runs, key=lambda run: run.state != "finished"):
        found.setdefault(_played(run), run)
    return list(found.values())


def _played(run: RunRecord) -> str:
    """Return what the score of a policy depends on."""
    parts = {part: run.config.get(part) for part in ("env", "wrappers", "evaluation")}
    return json.dumps(parts, sort_keys=True, default=str)
