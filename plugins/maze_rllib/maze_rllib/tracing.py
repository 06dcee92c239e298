"""Finds out which of RLlib's parameters its algorithms read, by runs of the installed RLlib.

`python -m maze_rllib.tracing [TITLE …]` writes `reads.json`: each algorithm is run in one process, with env runners and
with a learner in others, and with RLlib's own network; then every parameter that was read is tried once with another
value. It takes about twelve minutes on an idle machine with two cores.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from maze_core import MazeError, RunContext
from maze_rllib.algorithms import algorithm
from maze_rllib.config import config_of
from maze_rllib.conformance import SIZES
from maze_rllib.families import family
from maze_rllib.offered import CLUSTER, FILE, LEARNERS, THEIR_NETWORK, WORKERS, is_read, needs
from maze_rllib.parameters import titles
from maze_rllib.session import RaySession, check_installed
from maze_rllib.traced import noted, trace
from maze_rllib.trial_values import another

_LIMIT = 300
"""Seconds after which a trial counts as one that never ends."""


class Traces:
    """Short runs of one algorithm; `folder` is for what they need and write."""

    def __init__(self, title: str, folder: Path) -> None:
        self.title, self.family, self._folder, self._runs = title, family(title), folder, 0
        self._class = type(f"Whole{title}", (algorithm(title),), {"Config": config_of(title, whole=True)})
        spaces = self.family.action_spaces
        self._env = "CartPole-v1" if spaces is None or spaces[0].__name__ == "Discrete" else "Pendulum-v1"

    def read(self, values: Mapping[str, Any], runner: str = "dev") -> set[str]:
        """Return the parameters that a run of two iterations reads, with an evaluation and a saved state."""
        self._runs += 1
        file, run_dir = self._folder / f"read-{self._runs}", self._folder / f"run-{self._runs}"
        sizes = {**SIZES[self.title], **({"dataset": str(self._recordings())} if self.family.offline else {})}
        values = {f"algorithm.{name}": value for name, value in {"epoch_length": 2, **sizes, **values}.items()}
        values |= {"evaluation.n_episodes": 1, "callbacks.tensorboard": None, "algorithm.n_epochs": 1}
        workers: dict[str, Any] = {} if runner == "dev" else {"workers": 1}
        parts: dict[str, Any] = {"preset": "none", "silent": True, "seed": 1, "run_dir": run_dir, "overrides": values}
        with RunContext(self._env, self._class, runner={"name": runner, **workers}, **parts) as context:
            learning: Any = context.run.algorithm
            trace(learning._rllib, file)
            context.train()
            learning.load_state(learning.state())
        own = self.family.module is None or bool(values.get("algorithm.rllib_model"))
        options = () if own else self.family.options
        return noted(file, own_network=own) | set(options) | ({"num_envs_per_env_runner"} - {*self._unsampled()})

    def variants(self) -> Iterator[tuple[list[str], set[str]]]:
        """Yield what kinds of runs read, each with what the run has that the one before lacks."""
        yield [], self.read({})
        if self.family.module is not None:
            yield [THEIR_NETWORK], self.read({"rllib_model": True})
        if not self.family.offline:
            yield [WORKERS], self.read({}, "local")
            yield [LEARNERS], self.read({"num_learners": 1})

    def _unsampled(self) -> list[str]:
        return ["num_envs_per_env_runner"] if self.family.offline else []

    def _recordings(self) -> Path:
        folder = self._folder / "recordings"
        if not folder.exists():
            with RunContext(self._env, "a2c", seed=1, run_dir=self._folder / "recorded", silent=True) as context:
                context.rollout(6, deterministic=False, record=folder, seed=5)
        return folder


def reads_of(title: str, folder: Path) -> dict[str, list[str]]:
    """Return the parameters that an algorithm reads and RLlib does not fail with, each with what it needs."""
    traces, found = Traces(title, folder), dict[str, list[str]]()
    for has, names in traces.variants():
        found |= dict.fromkeys(names - found.keys(), has)
    known = config_of(title, whole=True).theirs
    found = {name: has for name, has in found.items() if name in known}
    pending, failed = sorted(found), set[str]()
    while pending:
        name = pending.pop(0)
        lacking = needs(title, name, found)
        if CLUSTER in lacking or not is_read(title, name, found):
            continue
        try:
            with _limited():
                names = traces.read(_enabled(title, name, lacking), "local" if WORKERS in lacking else "dev")
        except (MazeError, TimeoutError) as error:
            print(f"{title}: RLlib fails with {name}: {str(error)[:200]}", file=sys.stderr)
            failed.add(name)
            continue
        more = sorted((names & known.keys()) - found.keys())
        found |= dict.fromkeys(more, found[name])
        pending += more
    return {name: has for name, has in sorted(found.items()) if name not in failed}


def _enabled(title: str, name: str, lacking: list[str]) -> dict[str, Any]:
    """Return values of a run that tries a parameter."""
    network = THEIR_NETWORK in lacking and family(title).module is not None
    return {
        **({"rllib_model": True} if network else {}),
        **({"num_learners": 1} if LEARNERS in lacking and name != "num_learners" else {}),
        **another(title, name),
    }


@contextmanager
def _limited() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError("it did not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def text(data: Mapping[str, Any]) -> str:
    """Return the data as JSON with one parameter a line."""
    parts = [f'  "ray": {json.dumps(data["ray"])}']
    for title, names in data.items():
        if title != "ray":
            lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(needed)}" for name, needed in names.items())
            parts.append(f"  {json.dumps(title)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(wanted: list[str]) -> None:
    """Trace algorithms, and write the data after each."""
    import ray

    check_installed()
    for title in wanted or titles():
        with TemporaryDirectory() as folder, closing(RaySession(num_cpus=4)):
            reads = reads_of(title, Path(folder))
        before = json.loads(FILE.read_text(encoding="utf-8"))  # another process may trace other algorithms
        known = {each: before.get(each, {}) for each in titles()}
        FILE.write_text(text({"ray": ray.__version__, **known, title: reads}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
