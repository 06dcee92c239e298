"""The replay of a run with what belongs to it: the order in which it is sampled, and its rows on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.seeding import Purpose, generator, load_random_state, random_state
from maze_offpolicy.replay.log import ReplayLog

if TYPE_CHECKING:
    from maze_core.data.batch import Batch
    from maze_core.plugins.hookspecs import Run
    from maze_offpolicy.replay.buffer import ReplayBuffer


class StoredReplay:
    """Samples a replay buffer for a run, and writes its rows into the run directory with each checkpoint.

    Args:
        run: provides the seed, the device, the folder and the hooks.
        buffer: the rows.
    """

    def __init__(self, run: Run, buffer: ReplayBuffer) -> None:
        self._run, self.buffer = run, buffer
        run.hooks.announce("change_transitions")
        self._order = generator(run.seed, Purpose.REPLAY)
        self._log: ReplayLog | None = None

    def sample(self, batch_size: int, gamma: float, n_step: int = 1, stretch: int = 1, beta: float = 0.0) -> Batch:
        """Return a batch of the buffer's transitions on the run's device; arguments as for `ReplayBuffer.sample`.

        Plugins may change the batch (hook `change_transitions`).
        """
        run = self._run
        batch = self.buffer.sample(
            self._order, batch_size, gamma, n_step=n_step, stretch=stretch, beta=beta, device=run.device
        )
        run.hooks.change_transitions(run, batch)
        return batch

    @property
    def disk_bytes(self) -> int:
        """The most bytes on disk: rows of `last` and `previous`, rows of `best`, and rows not pruned yet."""
        return 2 * self.buffer.nbytes + self.buffer.nbytes // 4

    def state(self) -> dict[str, Any]:
        """Write new rows to disk; return which rows belong to this state, and where the order stands."""
        return {
            "order": random_state(self._order),
            "replay": self._opened_log().commit(),
            "open": self.buffer.open_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`, with the same rows.

        Raises:
            CheckpointError: rows on disk are missing or damaged.
            ValueError: they are not rows of this run.
            ConfigError: the state is of another selector.
        """
        load_random_state(self._order, state["order"])
        self.buffer.check_open_state(state["open"])
        self._opened_log().load(state["replay"])
        self.buffer.load_open_state(state["open"])  # behind the rows that are final
        if self.buffer.steps and not self.buffer.steps_of.ahead.any():
            raise ValueError("its replay data have no step")

    def prune(self) -> None:
        """Delete rows on disk that no checkpoint refers to."""
        self._opened_log().prune(self._run.saving.checkpoint_states())

    def _opened_log(self) -> ReplayLog:
        if self._log is None:
            self._log = ReplayLog(self._run.saving.replay_dir, self.buffer)
        return self._log
