"""The interface of an algorithm: it supplies batches and a loss; the core runs the training loop."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from gymnasium import spaces
from torch import nn
from typing_extensions import TypeVar

from maze_core.base.errors import ConfigError, PluginError
from maze_core.base.tree import TensorTree
from maze_core.collect.collector import Collector, load_state_of, put, state_of
from maze_core.data.batch import Batch, BatchShare, Loss, OwnStep, even_shares
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import flatten_space
from maze_core.learn.optimizers import Adam, Optimizer
from maze_core.learn.scheduled import Scheduled
from maze_core.plugins import discovery
from maze_core.plugins.config.run import AlgorithmConfig, RunConfig

if TYPE_CHECKING:
    from maze_core.collect.collector import Kept
    from maze_core.models.policy import Policy
    from maze_core.plugins.hookspecs import Run


P = TypeVar("P", bound=nn.Module, default="Policy")
K = TypeVar("K", bound="Kept")


def learning_parameters(policy: nn.Module, *others: nn.Module) -> list[nn.Parameter]:
    """Return the trainable parameters of a policy and of other networks, each once.

    Raises:
        ConfigError: the policy has none.
    """
    parameters = [p for p in policy.parameters() if p.requires_grad]
    if not parameters:
        raise ConfigError("the model has no parameters that learn", "model", "Choose another model.")
    return list(dict.fromkeys([*parameters, *(p for other in others for p in other.parameters() if p.requires_grad)]))


def _not_taken(taken: tuple[type[spaces.Space[Any]], ...], space: spaces.Space[Any]) -> str | None:
    """Return what of an action space an algorithm does not take, as a clause; None if it takes all."""
    several = isinstance(space, spaces.Dict | spaces.Tuple)
    wrong = [(key, leaf) for key, leaf in flatten_space(space, "action").items() if not isinstance(leaf, taken)]
    if not wrong and (not several or spaces.Dict in taken):
        return None
    among_others = wrong and several and spaces.Dict in taken
    return "the action {!r} is {}".format(*wrong[0]) if among_others else f"this environment has {space}"


def _takes(name: str, space: spaces.Space[Any]) -> bool:
    """Return True if an installed algorithm takes an action space."""
    try:
        return _not_taken(discovery.load("algorithm", name).action_spaces, space) is None
    except Exception:  # noqa: BLE001 — a broken plugin is no help
        return False


class Algorithm(ABC, Generic[P]):
    """A learning algorithm. Subclasses define the batches of an update and the loss of a batch.

    For a type checker, `Algorithm[MyPolicy]` is an algorithm for a policy class of one's own; `Algorithm` is one for
    `maze_core.Policy`.

    Order of calls: the constructor with its config, `check`, `setup_loss`, `setup`, and `load_state` if a run is
    resumed. Then, for each update, the core calls `warm_up`, iterates over `batches()` and takes one optimizer step on
    `compute_loss` per batch. Code after a `yield` therefore runs after that step.
    """

    Config: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Defaults of this algorithm for the other parts of a run, such as `{"model": {"critic": "none"}}`.

    They apply to fields that the chosen plugin has and that nothing else sets. Presets, files and flags override them.
    Those of callbacks are by name, such as `{"callbacks": {"early_stopping": {"patience": 50}}}`.
    """

    needs_critic: ClassVar[bool | None] = None
    """True: the model must have a state critic. False: it must have none, and `model.critic` is `none` by default.
    None: both are fine. The core refuses other runs before the first step."""

    supports_memory: ClassVar[bool] = False
    """True: the algorithm passes `batch.sequences` to the policy, so that policies with memory (`model.memory`) learn
    correctly. The core refuses other runs with such a policy before the first step."""

    brings_memory: ClassVar[bool] = False
    """True: its policy remembers by itself, whatever the model. It refuses models with a memory in `build_policy`."""
    columns: ClassVar[Mapping[str, str]] = {}
    """The metrics for which the console reserves columns, the most important first, such as
    `{"loss/policy": "policy"}`, with their titles. Other losses follow where there is room."""

    action_spaces: ClassVar[tuple[type[spaces.Space[Any]], ...]] = (
        spaces.Box,
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
        spaces.Dict,
    )
    """The action spaces this algorithm supports; all by default. Without Dict, only one of the others at a time.

    A run with another action space is refused before the first step. The model checks observation spaces.
    """

    supports_actors: ClassVar[bool] = False
    """True: the algorithm learns from environments in which several actors act: it uses the policy through its
    interface alone, and discounts by what has elapsed, as `rollout_discounts` does. The core refuses other runs in such
    an environment before the first step."""
    supports_agents: ClassVar[bool] = False
    """True: it learns in environments where several agents act, each with rows of its own. `RolloutCollector` and
    `ReplayCollector` do what is needed. Other runs are refused before the first step."""
    info_columns: ClassVar[tuple[str, ...]] = ()
    """Numbers of each step's `info` that the algorithm learns from, such as `("cost",)`: leaves [T, N] float32 of the
    `extra` of rollouts, and [B] of batches from replay, summed over n steps as their `reward` is. Every step has to
    report them, else the run ends at once; where several agents act, in the `infos` of each agent beside what it
    observes next. Their sums over episodes are the metrics `train/NAME_return_mean`, `eval/NAME_return_mean` and
    `final/NAME_return_mean`."""
    needs_actors: ClassVar[bool] = False
    """True: it learns only where several actors take turns. The core refuses other runs before the first step."""
    needs_agents: ClassVar[bool] = False
    """True: it learns only where several agents act. The core refuses other runs before the first step."""

    supports_learners: ClassVar[bool] = False
    """True: several processes may compute the gradient of a batch, each that of a share (`learners`). The loss then
    depends only on the config, on networks that `modules()` names, on what `setup_loss` builds, and on the batch, and
    is a mean over its rows. The core refuses other runs with several learners before the first step. A class that
    overrides the loss, or what it is built from, declares it again."""

    supports_tensors: ClassVar[bool] = False
    """True: it passes rollouts of its `RolloutCollector` to the core's functions and reads no observations and actions
    of theirs itself. Where an environment has tensors on the run's device, these two stay there."""

    calls: tuple[str, ...] | None = None
    """The hooks of other plugins that its runs call, of those that not every run does: such as `("compute_loss",
    *RolloutCollector.calls)`. `maze plugins info` shows them. Without `compute_loss`, or `on_evaluation`, plugins that
    count on it are refused; what collectors call is known from them. None: it does not say, and computes losses."""

    weighs_rows: ClassVar[bool] = False
    """True: its loss, metrics included, is a mean over the rows of a batch, by `mean_of_rows`. Where its steps are
    repeated, batches that lack rows of a rollout are then filled up with rows that weigh nothing. A class that
    overrides the loss, or what it is built from, declares it again."""

    def __init__(self, config: Any) -> None:
        self.scheduled = Scheduled(config)
        """Its parameters that have schedules."""
        self.config = self.scheduled.config
        self.row_results: TensorTree = {}
        """What `compute_loss` keeps about the rows of the last batch, leaves [B, …] without a graph, for `batches()`
        after its `yield`. From several learners they come share by share."""
        self.kept: dict[str, Kept] = {}
        """What `keep` was given, by name."""

    def check(self, config: RunConfig) -> None:
        """Raise ConfigError if this algorithm cannot run with this configuration, beyond what it declares.

        Nothing is built yet.
        """

    def check_agents(self, agents: Sequence[str]) -> None:
        """Raise ConfigError where several agents act, or one, and this algorithm does not declare that it can."""
        if self.needs_agents and not agents:
            raise ConfigError(
                f"{self.config.name} learns only where several agents act, and one acts in this environment",
                "algorithm",
                "Next: another environment, or maze train ppo.",
            )
        if agents and not (self.supports_agents or self.needs_agents):
            raise ConfigError(
                f"{self.config.name} learns from one agent's steps, and {len(agents)} agents act in this environment",
                "algorithm",
                "Next: maze train ppo, a2c, impala, appo, sac, td3, dqn, qmix, or bc.",
            )

    def check_action_space(self, space: spaces.Space[Any]) -> None:
        """Raise ConfigError for an action space that `action_spaces` does not include; it names those that take it."""
        wrong = _not_taken(self.action_spaces, space)
        if wrong is None:
            return
        taken = ", ".join(kind.__name__ for kind in self.action_spaces)
        others = [
            name for name in discovery.names("algorithm") if not name.startswith("rllib-") and _takes(name, space)
        ]
        raise ConfigError(
            f"{self.config.name} supports actions of {taken}, but {wrong}",
            "algorithm",
            f"Choose one that takes it ({', '.join(others)}), or wrap the environment."
            if others
            else "Wrap the environment: no installed algorithm takes it.",
        )

    def check_actors(self, observation_space: spaces.Space[Any]) -> None:
        """Raise ConfigError for an environment with several actors, if this algorithm cannot learn from it."""
        actors = actors_of(observation_space)
        if actors is None and self.needs_actors:
            raise ConfigError(
                f"{self.config.name} learns only where several actors take turns, and this environment has one",
                "algorithm",
                "Next: another environment, or maze train ppo.",
            )
        if actors is not None and not (self.supports_actors or self.needs_actors):
            raise ConfigError(
                f"{self.config.name} does not support environments with several actors, and this one has "
                f"{', '.join(actors.names)}",
                "algorithm",
                "Choose another algorithm, such as ppo.",
            )

    def setup_loss(self, run: Run) -> None:
        """Build what `compute_loss` and `modules` need, such as further networks. `run.policy` exists already.

        An algorithm that `supports_learners` does it here rather than in `setup`: in further learners only this is
        called, with a run that neither collects nor evaluates.
        """

    @abstractmethod
    def setup(self, run: Run) -> None:
        """Build what else the algorithm needs: collectors, buffers. Called after `setup_loss`."""

    def keep(self, name: str, part: K) -> K:
        """Save `part` with every checkpoint, restore it with a resumed run, and return it. Call it in `setup`.

            self._collector = self.keep("collector", RolloutCollector(run, 128))
            self._order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))

        Args:
            name: its place in the saved state.
            part: an object with `state()` and `load_state(state)`, or a random generator of numpy or torch. A
                `Collector` is also warmed up before learning, counted where disk space is checked, and pruned.
        """
        put(self.kept, name, part)
        return part

    def _collectors(self) -> list[Collector]:
        return [part for part in self.kept.values() if isinstance(part, Collector)]

    def warm_up(self) -> bool:
        """Collect the data that learning starts from; return False if the run was interrupted before its end.

        Called before each update: return True at once where nothing is missing. By default collectors that are kept do
        it.
        """
        return all(part.warm_up() for part in self.kept.values() if isinstance(part, Collector))

    @abstractmethod
    def batches(self) -> Iterator[Batch | OwnStep]:
        """Yield the batches of one update, one for each optimizer step. Data is collected here.

        A batch may name its objective, for `compute_loss`, and the optimizer's parameter group that learns from it. In
        the place of a batch there may be an `OwnStep`, with which the algorithm sets parameters itself.
        """

    @abstractmethod
    def compute_loss(self, policy: P, batch: Batch) -> Loss:
        """Return the loss of one batch. Implementations are marked with `hookimpl`."""

    def loss_constants(self) -> Hashable | None:
        """Return what else `compute_loss` depends on; its steps are recorded on a GPU, and compiled on a CPU.

        Only for a loss that depends on the batch, on tensors that stay where they are (parameters, buffers), on torch's
        global generator and on generators that are kept, and beyond these on what is returned, such as a coefficient
        that is scheduled: each value has a recording of its own. It must read no tensor's value (`item`, `if`), and
        keep nothing but `row_results`. None, the default: its steps are not recorded. A class that overrides the loss,
        or what it is built from, defines it again.
        """
        return None

    def shares(self, batch: Batch, count: int) -> list[BatchShare]:
        """Return the shares of a batch for `count` learners: by default even ones of rows, or of whole sequences."""
        return even_shares(batch, count)

    def modules(self) -> dict[str, nn.Module]:
        """Return further networks to train or save besides the policy, by name, such as critics and their targets.

        The optimizer must have their parameters; what does not learn, such as a `Target`, is frozen with
        `requires_grad_(False)`. A run in which one is neither is refused before the first step.
        """
        return {}

    @property
    def max_grad_norm(self) -> float:
        """The global norm to which gradients are clipped; 0: no clipping."""
        return getattr(self.config, "max_grad_norm", 0.0)

    def build_optimizer(self, policy: P) -> Optimizer:
        """Return the optimizer: by default Adam with `config.lr` of all trainable parameters of policy and `modules()`.

        Groups of parameters may have a `name`, which a batch then names to let only this group learn.
        """
        parameters = learning_parameters(policy, *self.modules().values())
        lr = getattr(self.config, "lr", None)
        if lr is None:
            name = self.config.name
            raise PluginError(f"algorithm plugin {name!r} has no parameter `lr` and does not override build_optimizer")
        return Adam(parameters, lr=lr)

    def lr_factor(self, fraction_done: float) -> float | None:
        """Return the factor of all learning rates in the next update; None: they stay as they are.

        By default that of `config.lr_schedule`, where there is one. The loop asks before each update. A rate with a
        schedule of its own, as `config.lr` may have, follows that one.

        Args:
            fraction_done: part of the run that is done, 0 to 1; 0 in a run whose end is open.
        """
        schedule = getattr(self.config, "lr_schedule", None)
        if not isinstance(schedule, str):
            return None
        return 1.0 if schedule == "constant" else 1.0 - fraction_done

    @property
    def epoch_length(self) -> int:
        """The number of updates in one epoch; valid after `setup`."""
        length: int = self.config.epoch_length
        return length

    def score(self, metrics: Mapping[str, float]) -> float:
        """Return the score of an epoch's metrics: higher is better, nan means unknown. The best policy is kept.

        By default the mean return of the evaluation; without one, that of training.
        """
        return metrics.get("eval/return_mean", metrics.get("train/return_mean", math.nan))

    def epoch_metrics(self) -> dict[str, float]:
        """Return further metrics of an epoch, such as a validation loss. Called once, before its evaluation."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides networks and optimizer: by default all that is kept.

        Nested dicts of plain values, arrays and tensors.
        """
        return {name: state_of(part) for name, part in self.kept.items()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        for name, part in self.kept.items():
            load_state_of(part, state[name])

    @property
    def disk_bytes(self) -> int:
        """The most bytes this algorithm stores in the run directory, networks and optimizer not counted."""
        return sum(collector.disk_bytes for collector in self._collectors())

    def prune(self) -> None:
        """Delete files that no checkpoint needs any more. Called when a checkpoint is complete."""
        for collector in self._collectors():
            collector.prune()

    def close(self) -> None:
        """Release what `setup` acquired; safe to call twice, and after a failed `setup`."""
