"""Builds a run's planner in any process, from the configuration of the plugin that has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_core.plugins.manager import Hooks
from maze_core.plugins.members import member
from maze_planning.planning import Planning

if TYPE_CHECKING:
    from maze_core import EnvBuilder, PluginConfig, Policy


@dataclass(frozen=True)
class PlannerSource:
    """Builds the planner of a run; it can be sent to another process."""

    parts: tuple[tuple[str, PluginConfig, str], ...]
    """Kind, configuration and its place of the plugins that may have one."""

    @classmethod
    def of(cls, hooks: Hooks) -> PlannerSource:
        """Return the source of a run with these hooks."""
        members = hooks.implementers("build_planner")
        return cls(tuple((each.kind, each.plugin.config, each.place) for each in members))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of these plugins."""
        return tuple(config.name for _, config, _ in self.parts)

    def planning(self, policy: Policy, purpose: str, builder: EnvBuilder) -> Planning | None:
        """Return what looks ahead with a policy; None where the plugin does not for this purpose."""
        hooks = Hooks(member(kind, config, place) for kind, config, place in self.parts)
        planner: Any = hooks.build_planner(policy, purpose)
        return None if planner is None else Planning(planner, builder)
