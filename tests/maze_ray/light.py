"""A task for workers that start in a third of the time: they import none of the modules that runs need."""

from __future__ import annotations

from typing import Any

from tests.runners.pool_contract import Answers


class Light(Answers):
    """Spares its worker the modules that runs need: most of what the start of a worker takes, and of no use here."""

    def setup(self, worker: Any) -> None:
        """Leave out the imports that follow."""
        from maze_ray import worker as worker_process

        worker_process.import_ahead = lambda: None
        super().setup(worker)
