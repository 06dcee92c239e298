"""What a further learner does: it computes the gradient of its share of each batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from maze_core import PluginError, Purpose, Task
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_core.models.blocks import for_evaluation
from maze_core.plugins.manager import Hooks
from maze_learners.batch_transfer import BatchHeader, received
from maze_learners.gradients import Gradients
from maze_learners.learner_group import LearnerGroup, LearnerLost
from maze_learners.tensor_layout import TensorLayout

if TYPE_CHECKING:
    from gymnasium import Space
    from torch import Tensor, nn

    from maze_core import Algorithm, Policy, Run, RunConfig, Shared

_LEARNER = 3
# Separates the random numbers that networks draw themselves in the further learners from those of the driver.


@dataclass(frozen=True, slots=True)
class Where:
    """The first job: tell which GPU this learner uses. The answer is empty on a CPU."""


@dataclass(frozen=True, slots=True)
class Join:
    """The second job: connect to the driver."""

    host: str
    port: int
    size: int
    """Number of learners."""
    nccl: bool
    seconds: float
    """Time limit of each exchange."""


@dataclass(frozen=True, slots=True)
class GradientJob:
    """The job of each optimizer step."""

    share: BatchHeader | None
    """None: there are too few rows for all learners."""
    weight: float
    """Of the share: all weights add up to 1."""
    parameters: Sequence[int] | None
    """Numbers of the parameters that learn; None: all."""
    progress: Mapping[str, float]
    """Attributes of the run that change while it trains."""
    numbers: Mapping[str, float]
    """Those of the algorithm's schedules at the moment."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a learner reports of its share besides the gradient."""

    metrics: dict[str, float]
    rows: dict[str, np.ndarray]
    """`Algorithm.row_results`"""
    records: list[dict[str, float]]
    """What plugins gave to `run.record`."""


NOTHING = Findings({}, {}, [])


class LearnerRun:
    """What the loss may use of the run in a further learner: nothing that collects, evaluates or saves."""

    def __init__(self, task: LearnerTask, policy: Policy, hooks: Hooks, device: torch.device) -> None:
        self.config, self.seed = task.config, task.config.seed
        self.observation_space, self.action_space = task.spaces
        self.policy, self.hooks, self.device = policy, hooks, device
        self.algorithm: Algorithm = hooks.plugin("algorithm")
        self.epoch = self.updates = self.env_steps = 0
        self.fraction_done = 0.0
        self.repeated = None
        self.records: list[dict[str, float]] = []

    def record(self, metrics: dict[str, float]) -> None:
        """Add values to the epoch's metrics, as `Run.record` does."""
        self.records.append(dict(metrics))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise PluginError(f"the loss uses run.{name}, which only the first of several learners has")


class LearnerTask(Task):
    """The task of a further learner.

    Args:
        config: the run's, with those callbacks only that take part in the loss.
        policy: on the CPU; its parameters come from the driver.
        spaces: of observations and actions.
        learned: names of the parameters that learn, as `named_tensors` names them.
        state: the layout of all parameters and buffers.
        threads: torch's threads.
    """

    def __init__(
        self,
        config: RunConfig,
        policy: Policy,
        spaces: tuple[Space[Any], Space[Any]],
        learned: Sequence[str],
        state: TensorLayout,
        threads: int,
    ) -> None:
        self.config, self.spaces = config, spaces
        self._policy, self._threads = policy, threads
        self._learned, self._state = learned, state
        self._group: LearnerGroup | None = None

    def setup(self, worker: int) -> None:
        """Build what the loss needs."""
        torch.set_num_threads(self._threads)
        self._rank = worker + 1
        self._device = _device_of(self.config.algorithm.device, self._rank)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        policy = for_evaluation(self._policy.to(self._device))
        hooks = Hooks.for_run(self.config)
        self._run = LearnerRun(self, policy, hooks, self._device)
        modules = further_modules(cast("Run", self._run), policy)
        tensors = named_tensors(policy, modules)
        ours, theirs = TensorLayout(tensors).specs, self._state.specs
        if ours != theirs:
            differing = sorted({spec[0] for spec in set(ours) ^ set(theirs)})
            raise PluginError(f"a further learner builds other networks than the first: {', '.join(differing[:3])}")
        self._tensors = list(tensors.values())
        self._gradients = Gradients([tensors[name] for name in self._learned])
        torch.manual_seed(integer_seed(self._run.seed or 0, Purpose.GLOBAL, _LEARNER, self._rank))

    def run(self, job: Where | Join | GradientJob, shared: Shared) -> Any:
        """Do one job; None where the driver, or another learner, is lost."""
        if isinstance(job, Where):
            return identity(self._device)
        try:
            if isinstance(job, Join):
                gpu = self._device if job.nccl else None
                self._group = LearnerGroup(job.host, job.port, self._rank, job.size, gpu, job.seconds)
                return True
            return self._learn(job)
        except LearnerLost:
            self.close()  # else those that wait for this one would not notice
            return None  # the driver finds out which one, and why
        except BaseException:
            self.close()
            raise

    def _learn(self, job: GradientJob) -> Findings:
        group, run = self._joined(), self._run
        buffer = self._state.buffer(group.device)
        group.broadcast(buffer)
        with torch.no_grad():
            for tensor, view in zip(self._tensors, self._state.views(buffer).values(), strict=True):
                tensor.copy_(view)
        vars(run).update(job.progress)
        run.algorithm.scheduled.take(job.numbers)
        if job.share is None:
            self._gradients.clear()
            group.add_up(self._gradients.weighted(None, 0.0, group.device))
            return NOTHING
        sent = job.share.layout.buffer(group.device)
        group.receive(sent)
        run.records.clear()
        run.algorithm.row_results = {}
        loss = run.hooks.compute_loss(run.policy, received(job.share, sent, self._device))
        self._gradients.compute(loss, job.parameters)
        group.add_up(self._gradients.weighted(loss.total, job.weight, group.device))
        rows = {name: rows.numpy(force=True) for name, rows in run.algorithm.row_results.items()}
        return Findings({name: float(value) for name, value in loss.metrics.items()}, rows, list(run.records))

    def _joined(self) -> LearnerGroup:
        if self._group is None:
            raise RuntimeError("this learner has not joined the others")
        return self._group

    def close(self) -> None:
        """Close the connections."""
        if self._group is not None:
            self._group.close()


def further_modules(run: Run, policy: nn.Module) -> dict[str, nn.Module]:
    """Build and return the networks besides the policy in a further learner, as the driver does before it collects."""
    with isolated_rng(integer_seed(run.seed, Purpose.GLOBAL, _LEARNER)):
        run.algorithm.setup_loss(run)
        built, _ = run.hooks.build_modules(run)  # those beside the algorithm learn in the driver
    plugins = {name: module.to(run.device) for name, (module, _) in built.items()}
    return {**run.algorithm.modules(), **plugins}


def named_tensors(policy: nn.Module, modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return all parameters and buffers by names such as `policy.encoder.weight`; shared ones once."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for prefix, module in {"policy": policy, **modules}.items():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{prefix}.{name}"] = tensor
    return found


def identity(device: torch.device) -> str:
    """Return a name that no other GPU has; empty for a CPU."""
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else ""


def _device_of(name: str, rank: int) -> torch.device:
    """Return the device of a learner: GPUs are dealt out in turn."""
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())
