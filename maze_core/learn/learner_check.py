"""Which plugins can take part in a run with several learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError

if TYPE_CHECKING:
    from maze_core.plugins.manager import Hooks

IN_LOSS = ("compute_loss", "build_modules")
"""The hooks of plugins that take part in the loss."""
_BUILDING = {"compute_loss", "setup", "setup_loss", "build_modules", "modules"}


def declares_learners(plugin: Any) -> bool:
    """Return True where a plugin declares `supports_learners`. `plugin`: it, or its class."""
    return declares(plugin, "supports_learners")


def declares(plugin: Any, name: str) -> bool:
    """Return True where a plugin's class, or one above it that already defines the loss, sets an attribute.

    A class that overrides the loss, or what it is built from, has to declare it again. `plugin`: it, or its class.
    """
    for kind in (plugin if isinstance(plugin, type) else type(plugin)).__mro__:
        if name in vars(kind):
            return bool(vars(kind)[name])
        if _BUILDING & vars(kind).keys():
            return False
    return False


def check_learners(hooks: Hooks, learners: int) -> None:
    """Raise ConfigError where the run has several learners and a plugin in its loss does not declare that it can."""
    for each in hooks.implementers(*IN_LOSS) if learners > 1 else ():
        if not declares_learners(each.plugin):
            others = ", or maze train ppo, a2c, pg, impala, appo or sac" if each.kind == "algorithm" else ""
            raise ConfigError(
                f"{each.title} takes part in the loss and supports only one learner",
                "learners",
                f"Next: --set learners=1{others}",
            )
