"""The environments that a worker steps: its own share of them, and those of workers that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maze_core.envs.in_process import in_turn
from maze_core.plugins.closing import release

if TYPE_CHECKING:
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.several.vector_env import AgentsVectorEnv
    from maze_core.envs.vector import Share

    Built = SerialVectorEnv | AgentsVectorEnv


class WorkerEnvs:
    """Environments by share, built when they are first asked for.

    Args:
        builder: builds them.
        shares: of each worker.
    """

    def __init__(self, builder: EnvBuilder, shares: Sequence[Share]) -> None:
        self._builder, self._shares = builder, shares
        self._built: dict[int, Built] = {}

    def of(self, share: int) -> Built:
        """Return the environments of a share, by its number."""
        if share not in self._built:
            its = self._shares[share]
            self._built[share] = in_turn(self._builder, its.count, its.first)
        return self._built[share]

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        built, self._built = self._built, {}
        release(*built.values())
