"""What other distributions do for a run.

Further learners, which maze-learners starts, compute shares of a gradient. Steps are made once and then repeated, which
maze-compile does. Planners look ahead, which maze-planning lets them do. Networks learn beside the
algorithm, as objects such as `SideLearner` of maze-models, which plugins return.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from torch import enable_grad

from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins import discovery
from maze_core.plugins.extensions import extension, installed, not_installed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from maze_core.collect.agents.looking_ahead import RunPlanning
    from maze_core.data.batch import Batch, Loss
    from maze_core.plugins.hookspecs import Run
    from maze_core.plugins.manager import Hooks


LEARNERS = "maze.learners"
"""The entry-point group for further learners: `processes` is called with the arguments of `further_learners`."""


class FurtherLearners(Protocol):
    """The learners of a run besides the process that owns it."""

    def deal(self, batch: Batch, parameters: Sequence[int] | None) -> Batch:
        """Send each learner its share of a batch; return that of this process.

        `parameters`: numbers of those that learn from this batch; None: all.
        """

    def combined(self, loss: Loss) -> Loss:
        """Set the gradients to those of the whole batch; return its loss. `loss`: of this process's share."""

    def close(self) -> None:
        """Close the connections. The run closes the workers."""


def is_installed() -> bool:
    """Return True if a distribution has further learners."""
    return bool(discovery.entries(LEARNERS, "processes"))


def check_installed(learners: int) -> None:
    """Raise ConfigError where a run has several learners and no distribution has further ones."""
    if learners > 1 and not is_installed():
        raise not_installed("several learners need", "maze-learners", "learners", ", or --set learners=1")


def further_learners(run: Run, parameters: Sequence[Tensor], modules: dict[str, nn.Module]) -> FurtherLearners:
    """Start and return the further learners of a run.

    Args:
        run: its algorithm is set up.
        parameters: those that learn, in the order of the optimizer.
        modules: the networks besides the policy.

    Raises:
        ConfigError: they are not installed, or something the loss needs cannot be sent to other processes.
        PluginError: the loss cannot be built there, or the optimizer has parameters that belong to no network.
        RunError: a learner failed to start.
    """
    check_installed(run.config.learners)
    started: FurtherLearners = installed(LEARNERS, "processes")(run, parameters, modules)
    return started


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


REPEATED_STEPS = "maze.repeated_steps"
"""The entry-point group for what repeats steps: `steps` is called with a run, and returns what repeats its steps."""


class RepeatedSteps(Protocol):
    """Takes the steps of a run in place of its learner."""

    recording: bool
    """True while a step is made that will be repeated: what it does in Python is done once."""

    def begin_epoch(self) -> None:
        """Look at what has changed since the last epoch."""

    def step(self, batch: Batch) -> bool:
        """Take the learner's step on a batch, as its code would; return False where its code is to take it."""

    def close(self) -> None:
        """Release what the steps hold."""


def repeated_steps(run: Run) -> RepeatedSteps | None:
    """Return what repeats a run's steps; None: all are taken as usual.

    Raises:
        ConfigError: they are asked for, and nothing is installed that makes them.
    """
    config = run.config
    if not (config.cuda_graphs if run.device.type == "cuda" else config.compile != "off"):
        return None
    make = installed(REPEATED_STEPS, "steps")
    if make is not None:
        steps: RepeatedSteps | None = make(run)
        return steps
    if config.compile == "on":
        raise not_installed("compiled steps need", "maze-compile", "compile", ", or --set compile=off")
    return None


PLANNING = "maze.planning"
"""The entry-point group for what looks ahead: `run` is called with a run, and returns its `RunPlanning`."""


def planning_of(run: Run) -> RunPlanning | None:
    """Return what looks ahead in a run; None: none of its plugins does.

    Raises:
        ConfigError: a plugin does, and nothing is installed that lets it.
    """
    members = run.hooks.implementers("build_planner")
    if not members:
        return None
    first = members[0]
    what = f"looking ahead, as {first.name} does,"
    planning: RunPlanning = extension(PLANNING, "run", what, "maze-planning", first.place or first.kind)(run)
    return planning


class SideLearners:
    """All networks of a run that learn beside the algorithm, by name, such as `curiosity.predictor`."""

    def __init__(self, learners: Mapping[str, Any]) -> None:
        self._learners = learners

    def learn(self, number: int, epoch_length: int) -> None:
        """Let each take the updates that are due, see `SideLearner.learn`; an error names it."""
        for name, each in self._learners.items():
            try:
                with enable_grad():
                    each.learn(number, epoch_length)
            except RunError as error:
                raise RunError(f"{name}, which learns beside the algorithm: {error}") from error

    def epoch_metrics(self) -> dict[str, float]:
        """Return the means of each, as `loss/NAME.METRIC`."""
        return {
            f"loss/{name}.{key}": v for name, each in self._learners.items() for key, v in each.epoch_metrics().items()
        }

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the networks."""
        return {name: each.state() for name, each in self._learners.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        for name, each in self._learners.items():
            each.load_state(state[name])
