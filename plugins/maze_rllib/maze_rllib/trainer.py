"""Runs an RLlib algorithm: starts Ray, watches its iterations, and gets its state as tensors and numbers."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from maze_core import ConfigError, MazeError, RunError
from maze_core.base.blame import causes
from maze_core.base.saved_state import check_state
from maze_core.envs.vector import Episode
from maze_rllib.callers import callers_without_sources
from maze_rllib.cluster import processes
from maze_rllib.env_runner import LENGTHS, RETURNS
from maze_rllib.learners import MODULE, learner_form, learner_state, put_state, put_weights, weights
from maze_rllib.metrics import losses
from maze_rllib.nodes import missing_module
from maze_rllib.randomness import BorrowedRandomness
from maze_rllib.room import bundles, check_exists, wait_until_free
from maze_rllib.session import RaySession

if TYPE_CHECKING:
    from maze_core import PluginConfig

POLICY = "policy."
"""Prefix of the policy's weights in a module around one of Maze's policies."""
_LIFETIME = "num_env_steps_sampled_lifetime"


@dataclass(frozen=True)
class Iteration:
    """The result of one of RLlib's training iterations."""

    env_steps: int
    episodes: list[Episode]
    metrics: dict[str, float]


class Trainer:
    """An algorithm of RLlib. Close it when done with it: workers and Ray end with it.

    Args:
        config: RLlib's complete configuration.
        runner: the run's runner.
        patience: most seconds without new steps, or without learning.
        env_steps: steps that the run has already taken, for schedules.

    Raises:
        RunError: Ray or a worker does not start.
    """

    def __init__(self, config: Any, runner: PluginConfig, patience: float, env_steps: int = 0) -> None:
        self._patience = patience
        self._samples = not config.is_offline
        self._algorithm: Any = None
        self._randomness = BorrowedRandomness(config.seed)
        self._session = RaySession(processes(config) + 2, runner)
        try:
            self._place(config)
            with self._randomness(), _kept(_log_folder()), callers_without_sources():
                self._algorithm = config.build_algo(use_copy=False)
        except BaseException as error:  # noqa: BLE001 — an interruption too must leave no process behind
            explained = _explained(error)
            self.close()
            raise explained from _cause(error)
        self._steps = self._trained = 0
        self._last_steps = self._last_update = time.monotonic()
        if env_steps and self._samples:
            self._count_from(env_steps)

    def iterate(self, stopped: Callable[[], bool] = lambda: False) -> Iteration:
        """Train for one of RLlib's iterations; empty ones, which IMPALA and APPO may have, do not count.

        Args:
            stopped: called between iterations; returns True to stop early.

        Raises:
            RunError: an environment raised, a worker died, a loss is not finite, or nothing has been sampled or learned
                for too long.
        """
        before, episodes = self._steps, list[Episode]()
        while True:
            try:
                with self._randomness():
                    result = self._algorithm.train()
            except Exception as error:  # noqa: BLE001 — whatever it is, the user gets to know it as one line
                raise _explained(error) from _cause(error)
            sampled = result.get("env_runners", {})
            episodes += _episodes(sampled)
            metrics = self._learned(result.get("learners", {}))
            self._watch(sampled, metrics)
            if metrics or not self._learns() or stopped():
                return Iteration(self._steps - before, episodes, metrics)

    def policy(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return parameters and buffers of the learning policy with these names, which are those of the run's policy.

        A module around one of Maze's policies has it as `policy`; one of RLlib's own is `module` in the run's policy.
        """
        module = self._ask(weights)[0]
        return {name: module[_in_module(name, module)] for name in names}

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs: networks, optimizers and adapted values."""
        state: dict[str, Any] = self._ask(learner_state)[0]
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state()`, and send its networks to the environment runners.

        Raises:
            StateError: it is none of such a learner.
        """
        check_state(state, self._ask(learner_form)[0], "state/algorithm/rllib")
        self._ask(partial(put_state, state=state))
        self._share()

    def load_policy(self, parameters: Mapping[str, Tensor]) -> None:
        """Load initial parameters of the policy, named as for `policy`."""
        module = self._ask(weights)[0]
        self._ask(partial(put_weights, values={_in_module(name, module): leaf for name, leaf in parameters.items()}))
        self._share()

    def close(self) -> None:
        """End the workers, and Ray if it was started here; safe to call twice."""
        algorithm, self._algorithm = self._algorithm, None
        try:
            if algorithm is not None:
                algorithm.stop()
                _remove_log_folder(Path(algorithm.logdir))
        finally:
            self._session.close()

    def _place(self, config: Any) -> None:
        """Let a Ray of the run's own start all processes at once; refuse what the Ray has no room for."""
        import ray

        if not self._session.is_cluster and (config.num_env_runners or config.num_learners):
            config.env_runners(num_cpus_per_env_runner=0).learners(num_cpus_per_learner=0)
        needed = bundles(config)
        check_exists(needed, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        wait_until_free(needed)

    def _ask(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return the results of a function of this package for each learner, wherever it is."""
        return [result.get() for result in self._algorithm.learner_group.foreach_learner(function)]

    def _share(self) -> None:
        group = self._algorithm.env_runner_group
        if group is not None:
            group.sync_weights(from_worker_or_learner_group=self._algorithm.learner_group, inference_only=True)

    def _count_from(self, steps: int) -> None:
        """Let RLlib's schedules continue from this number of steps."""
        from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

        counted = MetricsLogger()
        counted.log_value(_LIFETIME, steps, reduce="lifetime_sum")
        self._algorithm.metrics.aggregate([counted.reduce()], key="env_runners")
        self._algorithm.env_runner_group.foreach_env_runner(lambda runner: runner.set_state({_LIFETIME: steps}))
        self._steps = steps

    def _learned(self, learners: Mapping[str, Any]) -> dict[str, float]:
        """Return the losses of an iteration; empty if nothing was learned, when all of RLlib's are nan."""
        trained = int(learners.get("__all_modules__", {}).get("num_env_steps_trained_lifetime", 0))
        if trained <= self._trained:
            return {}
        self._trained = trained
        return losses(learners.get(MODULE, {}))

    def _watch(self, sampled: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        """Detect workers that do not sample or learn, which RLlib does not report."""
        if not math.isfinite(metrics.get("loss/total", 0.0)):
            bad = [name for name, value in metrics.items() if not math.isfinite(value)]
            raise RunError(f"what RLlib learns is not finite: {', '.join(bad)}")
        now = time.monotonic()
        steps = int(sampled.get(_LIFETIME, 0)) if self._samples else 0
        if steps > self._steps or not self._samples:
            self._last_steps, self._steps = now, steps
        if metrics or not self._learns():
            self._last_update = now
        for since, what in ((self._last_steps, "sampled nothing"), (self._last_update, "learned nothing")):
            if now - since > self._patience:
                raise RunError(
                    f"RLlib has {what} for {now - since:.0f} s (algorithm.watchdog_seconds is {self._patience:g}): "
                    "its workers hang or lack CPUs"
                )

    def _learns(self) -> bool:
        """Return True if enough has been sampled for learning to start."""
        first = getattr(self._algorithm.config, "num_steps_sampled_before_learning_starts", None)
        return first is None or self._steps > first + 1


def _in_module(name: str, module: Mapping[str, Any]) -> str:
    """Return what the learning module calls a parameter of the run's policy."""
    own = f"{POLICY}{name}"
    return own if own in module else name.removeprefix("module.")


def _log_folder() -> Path:
    """Return the folder below the user's home in which Ray creates one for each algorithm."""
    from ray.train.constants import DEFAULT_STORAGE_PATH

    return Path(DEFAULT_STORAGE_PATH)


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """Keep a folder from being removed by another run, which ends at this moment and finds it empty."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # it was removed in between
            held = Path(tempfile.mkdtemp(dir=folder))
            break
    try:
        yield
    finally:
        held.rmdir()


def _remove_log_folder(folder: Path) -> None:
    """Remove a folder that Ray creates below the user's home, in which RLlib writes nothing."""
    for each in (folder, folder.parent):
        with suppress(OSError):  # not empty, or another run removed it first
            each.rmdir()


def _episodes(sampled: Mapping[str, Any]) -> list[Episode]:
    returns, lengths = (_series(sampled.get(name)) for name in (RETURNS, LENGTHS))
    return [Episode(0, 0, total, int(length)) for total, length in zip(returns, lengths, strict=True)]


def _series(values: Any) -> list[float]:
    """Return the items of a series, which RLlib returns as a list, as a single item, or as nan for none."""
    items = values if isinstance(values, list) else [] if values is None else [values]
    return [float(item) for item in items if not math.isnan(item)]


def _cause(error: BaseException) -> BaseException | None:
    """Return the exception whose traceback the user should see: that of the user's own code if known."""
    found = _first_hand(error)
    return error if found is None else found.__cause__


def _explained(error: BaseException) -> BaseException:
    """Return an error of RLlib as one of Maze's: the environment's error, wherever it was raised, if there is one."""
    if not isinstance(error, Exception):
        return error
    found = _first_hand(error)
    if found is not None:
        return found
    missing = missing_module(error)
    if missing is not None:
        return missing
    lines = str(error).strip().splitlines() or [type(error).__name__]
    kind = type(error).__name__
    if kind.startswith(("ActorDied", "ActorUnavailable", "RayActorError")):
        return RunError(f"a worker of RLlib died: {lines[0]}")
    if isinstance(error, ValueError):
        return ConfigError(f"RLlib rejects the configuration: {' '.join(lines)[:600]}", "algorithm")
    return RunError(f"RLlib failed: {kind}: {lines[-1]}")


def _first_hand(error: BaseException) -> MazeError | None:
    """Return the Maze error that caused one of RLlib's. Ray wraps a worker's error in its own class."""
    for each in causes(error):
        inner = getattr(each, "cause", None)
        if isinstance(inner, MazeError):
            return inner
        if isinstance(each, MazeError):
            return each
    return None
