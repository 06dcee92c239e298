"""The complete state of a run: captured, written to checkpoints, kept in memory, and restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from maze_core.base.process_state import global_states
from maze_core.base.saved_state import OrLeftOut, OrNone, Text, check_state, form_of, varies
from maze_core.base.seeding import GeneratorState
from maze_core.envs.recorded_state import MEMORIES
from maze_core.run.saved.append_only import METRICS_FILE, GrowingFile
from maze_core.run.saved.checkpoint import Checkpoint, KeptState, write_checkpoint
from maze_core.run.saved.manifest import CHECKPOINTS, MODEL, STATE, states
from maze_core.run.saved.run_dir import REPLAY

if TYPE_CHECKING:
    from maze_core.run.run import Run

EVALUATED = {"evaluation_memory": MEMORIES}
"""The form of what a saved state says about evaluations."""


class Saving:
    """Saves and restores a run; `Run` says when."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._metrics: GrowingFile | None = None
        self._kept = KeptState(self._captured)
        self._counters = run.state.saved()
        """Those of the newest state that is on disk or kept."""
        self.saved_epoch: int | None = None
        """Epoch of the checkpoint `last`; None before there is one."""
        self.torn = False
        """True once an update was given up: the run can no longer train."""
        self.has_progress = False
        """True once a checkpoint holds more than the beginning of the run."""

    @property
    def folder(self) -> Path:
        """The run directory.

        Raises:
            RuntimeError: the run has none.
        """
        if self._run.run_dir is None:
            raise RuntimeError("this run has no run directory")
        return self._run.run_dir

    @property
    def replay_dir(self) -> Path:
        """The folder for the rows of a replay buffer, in the run directory."""
        return self.folder / REPLAY

    def checkpoint_states(self) -> list[str]:
        """Return every readable `state.json` of the run's checkpoints: they tell which rows on disk are needed."""
        return states(self.folder)

    def store(self, name: str) -> Path:
        """Write the complete state of the run to `checkpoints/NAME`, and return this folder."""
        with self._run.preemption.held():
            folder = self._write(name, self._captured())
            if name == "last":
                self.saved_epoch, self._counters = self._run.epoch, self._run.state.saved()
                self._kept.clear()
        return folder

    def keep(self) -> None:
        """Keep a copy of the complete state in memory if it is worth its time."""
        run = self._run
        if self._kept.is_due and run.run_dir is not None:
            with run.preemption.held():
                self._kept.take()
                self._counters = run.state.saved()
                run.algorithm.prune()

    def fall_back(self) -> None:
        """Give up the update in progress: write the kept state as `last`, and count only what is saved."""
        run, self.torn = self._run, True
        run.state.load({**self._counters, "seconds": run.state.seconds})
        if self._kept.checkpoint is not None:
            folder = self._write("last", self._kept.checkpoint)
            self.saved_epoch = run.epoch
            run.hooks.on_checkpoint(run, folder)

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore the complete state from a checkpoint, after `Run.build` and before `Run.start_clock`."""
        run, saved = self._run, checkpoint.state
        check_state(checkpoint.model, run.policy.state_dict(), MODEL)
        check_state(saved, form_of(self._everything), STATE)
        run.policy.load_state_dict(checkpoint.model)
        for name, module in run.modules.items():
            module.load_state_dict(saved["modules"][name])
        run.state.load(saved)
        run.learner.load_state(saved["learner"])
        run.side_learners.load_state(saved["side_learners"])
        run.statistics.load_state(saved["statistics"])
        run.algorithm.load_state(saved["algorithm"])
        states = saved.get("callbacks", {})
        for name, plugin in run.hooks.stateful.items():
            if name in states:  # else it is new in a resumed run
                plugin.load_state(states[name])
        run.environments.evaluation.load_memory(saved["evaluation_memory"])
        run.torch_rng = saved["torch_rng"]
        if run.cuda_rng is not None and "cuda_rng" in saved:  # else it was saved on another kind of device
            run.cuda_rng = saved["cuda_rng"]
        run.stop_pending = saved["stop_reason"]
        run.progress.env_steps = run.env_steps
        self._counters = run.state.saved()
        self._note_progress(saved)
        run.resumed = True

    def _write(self, name: str, checkpoint: Checkpoint) -> Path:
        root = self.folder / CHECKPOINTS
        write_checkpoint(root / name, checkpoint, root / "previous" if name == "last" else None)
        self._note_progress(checkpoint.state)
        return root / name

    def _note_progress(self, saved: dict[str, Any]) -> None:
        self.has_progress |= any(saved[name] for name in ("epoch", "env_steps", "updates"))

    def _captured(self) -> Checkpoint:
        """Return the complete state, which refers to what training changes."""
        self._metrics = self._metrics or GrowingFile(self.folder / METRICS_FILE)
        extent = self._metrics.extent()
        extents = {} if extent is None else {METRICS_FILE: extent}
        return Checkpoint(self._run.policy.state_dict(), self._everything(), extents)

    def _everything(self) -> dict[str, Any]:
        run = self._run

        torch_rng, cuda_rng = global_states(run.cuda_rng is not None)
        on_gpu = GeneratorState(torch.Generator(run.device))
        states = {name: plugin.state() for name, plugin in run.hooks.stateful.items()}
        callbacks = OrLeftOut({name: OrLeftOut(state) for name, state in states.items()})
        return {
            **run.state.saved(),
            "seconds": run.seconds,
            "learner": run.learner.state(),
            "side_learners": run.side_learners.state(),
            "statistics": run.statistics.state(),
            "algorithm": run.algorithm.state(),
            **({"callbacks": varies(states, callbacks)} if states else {}),
            "evaluation_memory": varies(run.wrapper_memory(), EVALUATED["evaluation_memory"]),
            "modules": {name: dict(module.state_dict()) for name, module in run.modules.items()},
            "torch_rng": varies(torch_rng, GeneratorState(torch.Generator())),
            **({} if cuda_rng is None else {"cuda_rng": varies(cuda_rng, OrLeftOut(on_gpu))}),
            "stop_reason": varies(None if run.interrupted else run.stop_reason, OrNone(Text())),
        }
