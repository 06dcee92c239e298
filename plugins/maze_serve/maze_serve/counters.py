"""What the server counts, in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Upper bounds of the histogram of seconds."""


@dataclass
class Counters:
    """Decisions, refusals by status, and how long decisions took."""

    decisions: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    _within: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    _requests: int = 0

    def decided(self, count: int, seconds: float) -> None:
        """Count a request that was answered with so many decisions."""
        self.decisions += count
        self.seconds += seconds
        self._requests += 1
        for place, bound in enumerate(BOUNDS):
            self._within[place] += seconds <= bound

    def text(self) -> str:
        """Return all counters."""
        lines = [
            "# HELP maze_decisions_total Actions that were returned.",
            "# TYPE maze_decisions_total counter",
            f"maze_decisions_total {self.decisions}",
            "# HELP maze_refused_total Requests that were refused, by status.",
            "# TYPE maze_refused_total counter",
            *(f'maze_refused_total{{status="{status}"}} {count}' for status, count in sorted(self.refused.items())),
            "# HELP maze_act_seconds Time of a request to act.",
            "# TYPE maze_act_seconds histogram",
            *(f'maze_act_seconds_bucket{{le="{b}"}} {n}' for b, n in zip(BOUNDS, self._within, strict=True)),
            f'maze_act_seconds_bucket{{le="+Inf"}} {self._requests}',
            f"maze_act_seconds_sum {self.seconds:.6f}",
            f"maze_act_seconds_count {self._requests}",
        ]
        return "\n".join(lines) + "\n"
