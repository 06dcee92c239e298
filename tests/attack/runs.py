"""The runs that are attacked: every algorithm, two epochs of a few steps, with all that writes files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENV = "CartPole-v1"
DEMOS = "demos"
"""Where, beside a run, the recording lies that some algorithms learn from."""
RECORDED: tuple[object, ...] = (
    "rollout",
    "--policy",
    "random",
    "--env",
    ENV,
    "-n",
    4,
    "--seed",
    1,
    "--record",
    DEMOS,
    "--runner",
    "dev",
)
RUN = "run"
RECORDINGS = "recordings"

_COMMON = {
    "algorithm.epoch_length": 2,
    "algorithm.n_epochs": 2,
    "evaluation.n_episodes": 2,
    "evaluation.num_envs": 2,
    "model.hidden": "[4]",
    "callbacks.console": "null",
    "seed": 1,
}
_OFF_POLICY = {
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 40,
    "algorithm.epoch_length": 4,
    "algorithm.batch_size": 8,
    "algorithm.critic_hidden": "[4]",
}
SETTINGS: dict[str, dict[str, object]] = {
    "ppo": {"algorithm.num_envs": 2, "algorithm.n_rollout_steps": 16, "model.normalize_observations": "true"},
    "a2c": {"algorithm.num_envs": 2, "algorithm.n_rollout_steps": 12},
    "impala": {"algorithm.n_rollout_steps": 12, "algorithm.num_actors": 2, "algorithm.envs_per_actor": 1},
    "es": {"algorithm.n_rollouts_per_update": 2, "evaluation.num_envs": 1},
    "sac": _OFF_POLICY,
    "sacfd": {**_OFF_POLICY, "algorithm.initial_demonstrations": DEMOS, "algorithm.replay_buffer_size": 120},
    "bc": {"algorithm.dataset": DEMOS, "algorithm.batch_size": 16},
}
"""What makes each algorithm quick; `_COMMON` is below it."""
_RECORD = "{name: record, folder: recordings}"


@dataclass(frozen=True)
class Plan:
    """A run: how it is begun, from the folder it lies in."""

    algorithm: str
    recording: bool = False
    """Whether it also records what passes, behind wrappers with a memory."""

    @property
    def name(self) -> str:
        return f"{self.algorithm}+record" if self.recording else self.algorithm

    @property
    def needs_demos(self) -> bool:
        return self.algorithm in ("bc", "sacfd")

    def train(self) -> list[object]:
        """The command that trains it."""
        settings: dict[str, Any] = {**_COMMON, **SETTINGS[self.algorithm]}
        command: list[object] = ["train", self.algorithm, "--env", ENV, "--run-dir", RUN, "--preset", "none"]
        assignments = [f"{path}={value}" for path, value in settings.items()]
        if self.recording:
            # Es compares episodes, and refuses what remembers more than one.
            memory = [] if self.algorithm == "es" else ["normalize_reward"]
            assignments.append(f"wrappers=[{', '.join([*memory, 'monitor', _RECORD])}]")
        return command + [part for text in assignments for part in ("--set", text)]


def plan_of(name: str) -> Plan:
    """The plan with that name."""
    algorithm, plus, _ = name.partition("+")
    return Plan(algorithm, bool(plus))


def files_of(folder: Path) -> list[str]:
    """All files below a folder, by their paths within it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
