"""The callback `constraints`: what an algorithm asks where a run has limits, and what an epoch reports of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from maze_core import ConfigError, Plugin, PluginConfig, Run, hookimpl, remembers
from maze_core.base.metrics import VIOLATION
from maze_core.envs.info_columns import CONSTRAINT
from maze_safety.config import ConstraintsConfig
from maze_safety.multipliers import Multipliers

if TYPE_CHECKING:
    from maze_offpolicy import JointActions

    from maze_safety.off_policy import ReplayCosts
    from maze_safety.on_policy import RolloutCosts

_KEPT = "constraints"
# Where the algorithm keeps the multipliers; it does if it has asked for them.
_ALGORITHMS = "ppo, a2c, trpo, sac, td3, or ddpg"


class Constraints(Plugin):
    """Keep limits of KPIs, metrics of episodes and numbers in `info` by multipliers with PID control.

    Algorithms that can do that ask for `rollout_costs` or `replay_costs`; other runs are refused.
    """

    Config: ClassVar[type[PluginConfig]] = ConstraintsConfig
    config: ConstraintsConfig

    def rollout_costs(self, run: Run) -> RolloutCosts:
        """Return what an on-policy algorithm needs; it keeps the multipliers."""
        from maze_safety.on_policy import RolloutCosts

        return RolloutCosts(run, self._begin(run))

    def replay_costs(self, run: Run, actions: JointActions) -> ReplayCosts:
        """Return what an off-policy algorithm needs whose critics rate `actions`; it keeps the multipliers."""
        from maze_safety.off_policy import ReplayCosts

        return ReplayCosts(run, self._begin(run), actions)

    def _begin(self, run: Run) -> Multipliers:
        if remembers(run.policy):
            raise _refused("policies with memory", "model.memory", "--set model.memory=none")
        if run.environments.kind.agents:
            raise _refused("several agents", "env", "an environment with one agent")
        if run.config.learners > 1:
            raise _refused("several learners", "learners", "--set learners=1")
        return run.algorithm.keep(_KEPT, Multipliers(self.config))

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Refuse algorithms that have not asked."""
        if _KEPT not in run.algorithm.kept:
            name = run.config.algorithm.name
            raise ConfigError(f"{name} keeps no constraints", "constraints", f"Next: maze train {_ALGORITHMS}")

    @hookimpl
    def on_metrics(self, run: Run, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return the mean of each number in training, its multiplier, and by how much the evaluation violates them."""
        multipliers = run.algorithm.kept.get(_KEPT)
        if not isinstance(multipliers, Multipliers):
            return {}
        group = "eval" if run.config.evaluation_episodes else "train"
        found: dict[str, float] = {}
        beyond = [0.0]
        for name, limit, value in zip(multipliers.names, multipliers.limits, multipliers.values, strict=True):
            mean = metrics.get(f"train/{CONSTRAINT}{name}", math.nan)
            found |= {} if math.isnan(mean) else {f"constraint/{name}": mean}
            found[f"constraint/{name}_multiplier"] = value
            number = metrics.get(f"{group}/{CONSTRAINT}{name}", math.nan)
            beyond.append(limit.sign * number / limit.unit - limit.cost)
        return {**found, VIOLATION: math.nan if any(map(math.isnan, beyond)) else max(beyond)}


def _refused(what: str, where: str, instead: str) -> ConfigError:
    return ConfigError(f"constraints are not kept with {what}", where, f"Next: {instead}")
