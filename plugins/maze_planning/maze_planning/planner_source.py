"""Builds a run's planner in any process, from the configuration of the plugin that has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import member
from maze_core.plugins.python_objects import KnownPlugins
from maze_planning.planning import Planning

if TYPE_CHECKING:
    from maze_core.envs.builder import EnvBuilder
    from maze_core.models.policy import Policy
    from maze_core.plugins.config.base import PluginConfig
    from maze_core.plugins.discovery import Loader


@dataclass(frozen=True)
class PlannerSource:
    """Builds the planner of a run; it can be sent to another process."""

    parts: tuple[tuple[str, PluginConfig, str], ...]
    """Kind, configuration and its place of the plugins that may have one."""
    load: Loader

    @classmethod
    def of(cls, hooks: Hooks, load: Loader) -> PlannerSource:
        """Return the source of a run with these hooks."""
        members = hooks.implementers("build_planner")
        return cls(tuple((each.kind, each.plugin.config, each.place) for each in members), load)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of these plugins."""
        return tuple(config.name for _, config, _ in self.parts)

    def planning(self, policy: Policy, purpose: str, builder: EnvBuilder) -> Planning | None:
        """Return what looks ahead with a policy; None where the plugin does not for this purpose."""
        hooks = Hooks(member(kind, config, self.load, place) for kind, config, place in self.parts)
        planner: Any = hooks.build_planner(policy, purpose)
        return None if planner is None else Planning(planner, builder)

    def __getstate__(self) -> dict[str, Any]:
        known = {(kind, config.name): self.load(kind, config.name) for kind, config, _ in self.parts}
        return {"parts": self.parts, "load": KnownPlugins(known)}
