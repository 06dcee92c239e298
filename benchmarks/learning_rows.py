"""The rows of the page Learning: what each algorithm is to reach, and within how many steps."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from maze_core.plugins import discovery
from maze_core.plugins.config.presets import named_presets, package, preset_of, presets_of_package


@dataclass(frozen=True)
class Row:
    """One claim: `algorithm` reaches `gate` on `env` within `steps`, with the preset that ships with it.

    With `of`, the gate is so many times the mean of that row. A row without a gate is there for others.
    """

    algorithm: str
    env: str
    steps: int
    gate: float | None
    """Least mean of the seeds' final evaluations."""
    preset: str | None = None
    """None: the preset that is named like the environment, if the algorithm has one."""
    settings: tuple[str, ...] = ()
    """Further arguments of `maze train`."""
    label: str = ""
    """What distinguishes the row from others of the algorithm and environment."""
    metric: str = "eval/return_mean"
    """Of the final evaluation, or of 200 games against a random opponent: the score."""
    unit: float = 1.0
    """Of the score: 0.01 for a share in per cent."""
    seeds: int = 5
    """Runs on whose mean the gate is."""
    of: str | None = None
    """Row whose mean the gate multiplies; None: the gate is the mean itself."""

    @property
    def name(self) -> str:
        return "-".join(part for part in (self.algorithm, self.label, self.env.rpartition(":")[2]) if part)

    @property
    def is_game(self) -> bool:
        """True for games against a random opponent. Self-play has no curve: one side wins what the other loses."""
        return self.metric.startswith("games/")

    @property
    def facts(self) -> dict[str, Any]:
        """What a finished seed depends on, besides the code."""
        return {
            "steps": self.steps,
            "preset": self.preset or "as shipped",
            "preset_digest": self._preset_digest(),
            "settings": list(self.settings),
        }

    def _preset_digest(self) -> str:
        """Digest of the preset's values, not of its comments; empty if there is no preset."""
        named = self.settings[self.settings.index("--preset") + 1] if "--preset" in self.settings else self.preset
        algorithm = discovery.load("algorithm", self.algorithm)
        places = [package(algorithm), package(discovery.load("env", "pettingzoo"))]
        folders = [folder for place in places for folder in presets_of_package(place, self.algorithm)]
        found = named_presets(self.algorithm, folders).get(named or preset_of(self.env))
        if found is None:
            return ""
        return hashlib.sha256(json.dumps(found.content, sort_keys=True).encode()).hexdigest()[:12]


GRU = ("--preset", "none", "--set", "model.memory=gru", "--set", "algorithm.sequence_length=32", "--batch-size", "256")
HIDDEN = ("--wrappers", "hide", "--set")
LONG_EPOCHS = ("--epoch-length", "10000")
ZOO = ("--env-source", "pettingzoo")
COMPILED = ("--set", "compile=on")
ROWS = (
    Row("ppo", "CartPole-v1", 100_000, gate=475),
    Row("a2c", "CartPole-v1", 500_000, gate=475),
    Row("a2c", "MountainCarContinuous-v0", 100_000, gate=88),
    Row("es", "CartPole-v1", 500_000, gate=475),
    Row("cma_es", "CartPole-v1", 100_000, gate=475, seeds=3),
    Row("cma_es", "MountainCarContinuous-v0", 500_000, gate=90, seeds=3),
    Row("impala", "CartPole-v1", 500_000, gate=475),
    Row("appo", "CartPole-v1", 500_000, gate=475),
    Row("ppo", "Acrobot-v1", 500_000, gate=-95),
    Row("ppo", "Pendulum-v1", 200_000, gate=-250),
    Row("ppo", "LunarLander-v3", 1_000_000, gate=200),
    Row("trpo", "CartPole-v1", 100_000, gate=475),
    Row("trpo", "Pendulum-v1", 200_000, gate=-250),
    Row("pg", "CartPole-v1", 200_000, gate=475),
    Row("sac", "Pendulum-v1", 20_000, gate=-200),
    Row("sac", "CartPole-v1", 50_000, gate=475),
    Row("sac", "LunarLanderContinuous-v3", 300_000, gate=220),
    Row("ppo", "CartPole-v1", 100_000, 475, settings=(*HIDDEN, "wrappers.0.elements=[1,3]", *GRU), label="gru-hidden"),
    Row("dqn", "CartPole-v1", 50_000, gate=475),
    Row("dqn", "Acrobot-v1", 100_000, gate=-90, seeds=3),
    Row("dqn", "LunarLander-v3", 300_000, gate=220),
    Row("apex", "CartPole-v1", 50_000, gate=1.0, of="dqn-CartPole-v1", seeds=3),
    Row("apex", "LunarLander-v3", 300_000, gate=1.0, of="dqn-LunarLander-v3", seeds=3),
    Row("pqn", "CartPole-v1", 500_000, gate=475),
    Row("sac", "Pendulum-v1", 10_000, gate=-170, preset="crossq", label="crossq"),
    Row("sac", "LunarLanderContinuous-v3", 300_000, 250, "tqc-LunarLanderContinuous-v3", label="tqc", seeds=3),
    Row("sac", "HalfCheetah-v5", 100_000, gate=None),
    # The SAC that CrossQ is compared with has the settings of its paper. Walker2d-v5 ships with them.
    Row("sac", "HalfCheetah-v5", 100_000, gate=None, preset="paper", label="paper", seeds=3),
    Row(
        "sac",
        "HalfCheetah-v5",
        100_000,
        1.25,
        "crossq",
        LONG_EPOCHS,
        "crossq",
        seeds=3,
        of="sac-paper-HalfCheetah-v5",
    ),
    Row("sac", "Walker2d-v5", 100_000, gate=None, seeds=3),
    Row("sac", "Walker2d-v5", 100_000, 1.25, "crossq", LONG_EPOCHS, "crossq", seeds=3, of="sac-Walker2d-v5"),
    Row("td3", "Pendulum-v1", 20_000, gate=-170),
    # With updates that are compiled from the first on: runs as short as these otherwise have none.
    Row("ppo", "CartPole-v1", 100_000, 475, settings=COMPILED, label="compiled", seeds=3),
    Row("ppo", "Pendulum-v1", 200_000, -250, settings=COMPILED, label="compiled", seeds=3),
    Row("a2c", "CartPole-v1", 500_000, 475, settings=COMPILED, label="compiled", seeds=3),
    Row("pg", "CartPole-v1", 200_000, 475, settings=COMPILED, label="compiled", seeds=3),
    Row("dqn", "CartPole-v1", 50_000, 475, settings=COMPILED, label="compiled", seeds=3),
    Row("sac", "Pendulum-v1", 20_000, -200, settings=COMPILED, label="compiled", seeds=3),
    Row("td3", "Pendulum-v1", 20_000, -170, settings=COMPILED, label="compiled", seeds=3),
    Row("sac", "Pendulum-v1", 10_000, -170, "crossq", COMPILED, "crossq-compiled", seeds=3),
    Row("ppo", "HalfCheetah-v5", 1_000_000, gate=3500),
    Row("trpo", "HalfCheetah-v5", 1_000_000, gate=2500, seeds=3),
    Row("ppo", "Hopper-v5", 1_000_000, gate=2300),
    Row("ppo", "Walker2d-v5", 1_000_000, gate=3000),
    Row("ppo", "Ant-v5", 1_000_000, gate=1500),
    Row("ppo", "Swimmer-v5", 1_000_000, gate=100),
    Row("ppo", "InvertedDoublePendulum-v5", 1_000_000, gate=9000),
    Row("ppo", "Pendulum-v1", 200_000, -250, "gru-Pendulum-v1", (*HIDDEN, "wrappers.0.elements=[2]"), "gru-hidden"),
    # An action lasts four steps of the environment: 300,000 of them.
    Row(
        "ppo",
        "MountainCarContinuous-v0",
        75_000,
        88,
        "gru-MountainCarContinuous-v0",
        ("--wrappers", "hide,step_skip", "--set", "wrappers.0.elements=[1]"),
        "gru-hidden",
    ),
    Row(
        "ppo",
        "pettingzoo.classic:connect_four_v3",
        1_500_000,
        95,
        settings=ZOO,
        metric="games/wins",
        unit=0.01,
    ),
    Row(
        "ppo",
        "pettingzoo.classic:tictactoe_v3",
        1_000_000,
        100,
        settings=ZOO,
        metric="games/unbeaten",
        unit=0.01,
    ),
    Row(
        "alphazero",
        "pettingzoo.classic:tictactoe_v3",
        20_000,
        100,
        settings=ZOO,
        metric="games/unbeaten",
        unit=0.01,
        seeds=3,
    ),
    Row(
        "alphazero",
        "pettingzoo.classic:connect_four_v3",
        60_000,
        99,
        settings=ZOO,
        metric="games/wins",
        unit=0.01,
        seeds=3,
    ),
    # The mean return of an agent; random actions have -27.
    Row("ppo", "mpe2:simple_spread_v3", 1_000_000, -15, settings=ZOO),
    Row("vdn", "mpe2:simple_spread_v3", 1_000_000, 1, settings=ZOO, of="ppo-simple_spread_v3", seeds=3),
    Row("qmix", "mpe2:simple_spread_v3", 1_000_000, 1, settings=ZOO, of="ppo-simple_spread_v3", seeds=3),
    # Needs gymnasium-robotics: docs/environments/packages.md says how to install it.
    Row(
        "sac",
        "gymnasium_robotics:FetchReach-v4",
        8_000,
        gate=95,
        label="her",
        metric="eval/success",
        unit=0.01,
        seeds=3,
    ),
)
