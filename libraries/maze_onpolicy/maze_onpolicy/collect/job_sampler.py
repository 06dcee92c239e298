"""Rollouts that a worker collects as jobs, in environments of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maze_core import Count, varies
from maze_core.base.saved_state import OrNone, check_state, form_of

if TYPE_CHECKING:
    from maze_core import Rollout
    from maze_onpolicy.collect.sampler import Sampler


class JobSampler:
    """A sampler whose first job decides the seeds: a worker that replaces a lost one plays new episodes.

    Args:
        build: returns the sampler of a worker whose first job has this number.
    """

    def __init__(self, build: Callable[[int], Sampler]) -> None:
        self._build = build
        self._first_job: int | None = None

    @property
    def started(self) -> bool:
        """True once a rollout was collected or restored: later ones continue its episodes."""
        return self._first_job is not None

    def collect(self, job: int) -> Rollout:
        """Collect the rollout of a job."""
        if self._first_job is None:
            self._begin(job)
        return self._sampler.collect()

    def state(self) -> dict[str, Any]:
        """Return the state of the environments, and of what acts in them."""
        state: dict[str, Any] = {"first_job": varies(self._first_job, OrNone(Count()))}
        return state if self._first_job is None else {**state, "sampler": self._sampler.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; unfinished episodes are replayed."""
        if state["first_job"] is not None:
            self._begin(state["first_job"])
            check_state(state.get("sampler"), form_of(self._sampler.state), "sampler")
            self._sampler.load_state(state["sampler"])

    def _begin(self, job: int) -> None:
        self._first_job, self._sampler = job, self._build(job)
