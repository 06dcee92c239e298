"""Several learners: each computes the gradient of its share of a batch; the driver takes the optimizer step."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from maze_core import Batch, Loss, PluginError, RunError
from maze_core.data.batch import BatchShare
from maze_core.learn.taken_over import IN_LOSS
from maze_learners.batch_transfer import header_of
from maze_learners.gradients import Gradients
from maze_learners.learner_group import DRIVER, LearnerGroup, LearnerLost, listener_at
from maze_learners.learner_task import (
    Findings,
    GradientJob,
    Join,
    LearnerTask,
    Where,
    identity,
    named_tensors,
)
from maze_learners.tensor_layout import TensorLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor, nn

    from maze_core import Run

_REASONS = 10.0
"""Seconds in which the runner finds out why a learner was lost."""
_PROGRESS = ("epoch", "updates", "env_steps", "fraction_done")


class Learners:
    """The further learners of a run, each a worker of its runner.

    For each optimizer step the driver sends them the networks as they are, and shares of the batch. The gradients are
    added up in proportion to the shares' weights. Whatever the driver changes in the networks between two steps
    therefore reaches all learners, and the optimizer, the checkpoints and the data are the driver's alone.

    The arguments and errors are those of `further_learners`.
    """

    def __init__(self, run: Run, parameters: Sequence[Tensor], modules: dict[str, nn.Module]) -> None:
        self._run, self._count = run, run.config.learners
        self._gradients = Gradients(parameters)
        self._tensors = named_tensors(run.policy, modules)
        self._state = TensorLayout(self._tensors)
        self._weights: list[float] = []
        """Of the shares of the batch that is learned from; their sum is 1."""
        self._sent: list[Callable[[], None]] = []
        """Each waits until a share is sent."""
        names = {id(tensor): name for name, tensor in self._tensors.items()}
        if any(id(parameter) not in names for parameter in parameters):
            raise PluginError("the optimizer has parameters that are neither in the policy nor in modules()")
        # The runner without its class, which learners do not need: one of the program's own could not be sent.
        parts = {"callbacks": _in_loss(run), "runner": run.config.runner.bound_to(None)}
        config = run.config.model_copy(update=parts)
        policy = copy.deepcopy(run.policy).cpu()
        spaces = (run.observation_space, run.action_space)
        learned = [names[id(parameter)] for parameter in parameters]
        task = LearnerTask(config, policy, spaces, learned, self._state, torch.get_num_threads())
        self._pool, host = run.environments.learners(task, self._count - 1, run.device.type == "cuda")
        self._connect(host)

    def _connect(self, host: str) -> None:
        pool, seconds = self._pool, self._pool.job_timeout
        gpus = [identity(self._run.device), *self._ask([Where()] * pool.num_workers)]
        nccl = all(gpus) and len(set(gpus)) == len(gpus)
        listener, port = listener_at(host)
        with closing(listener):
            for worker in range(pool.num_workers):
                pool.submit(Join(host, port, self._count, nccl, seconds), worker)
            with self._whole():
                gpu = self._run.device if nccl else None
                self._group = LearnerGroup(host, port, DRIVER, self._count, gpu, seconds, listener)
            self._answers()

    def deal(self, batch: Batch, parameters: Sequence[int] | None) -> Batch:
        """Send each learner its share of a batch and the networks; return the driver's share.

        `parameters`: numbers of those that learn from this batch; None: all.

        Raises:
            RunError: a learner was lost.
        """
        run, device = self._run, self._group.device
        shares: list[BatchShare] = run.algorithm.shares(batch, self._count)
        total = sum(share.weight for share in shares)
        self._weights = [share.weight / total for share in shares]
        progress, numbers = {name: getattr(run, name) for name in _PROGRESS}, run.algorithm.scheduled.numbers()
        packed: list[tuple[int, Tensor]] = []
        for rank, share in enumerate(shares[1:], 1):
            header = None
            if len(share.batch):
                header, tensors = header_of(share.batch)
                packed.append((rank, header.layout.pack(tensors, device)))
            self._pool.submit(GradientJob(header, self._weights[rank], parameters, progress, numbers), rank - 1)
        with self._whole(), torch.no_grad():
            self._group.broadcast(self._state.pack(self._tensors, device))
            self._sent = [self._group.send(buffer, rank) for rank, buffer in packed]
        return shares[0].batch

    def combined(self, loss: Loss) -> Loss:
        """Set the gradients to those of the whole batch; return its loss. `loss`: of the driver's share.

        Raises:
            RunError: a learner failed or was lost.
        """
        with self._whole():
            for wait in self._sent:
                wait()
            self._sent.clear()
            flat = self._gradients.weighted(loss.total, self._weights[0], self._group.device)
            self._group.add_up(flat)
        total = self._gradients.take(flat)
        found: list[Findings] = self._answers()
        for findings in found:
            for metrics in findings.records:
                self._run.record(metrics)
        self._gather_rows(found)
        return Loss(total, self._metrics(loss, found))

    def close(self) -> None:
        """Close the connections. The run closes the workers."""
        self._sent.clear()  # they would keep the sockets open
        group = self.__dict__.get("_group")
        if group is not None:
            group.close()

    def _metrics(self, loss: Loss, found: list[Findings]) -> dict[str, Tensor]:
        """Return the metrics of the whole batch: weighted means over the shares that have them."""
        values = [{name: value.detach() for name, value in loss.metrics.items()}]
        values += [{name: torch.tensor(value) for name, value in each.metrics.items()} for each in found]
        means: dict[str, Tensor] = {}
        for name in dict.fromkeys(name for each in values for name in each):
            there = [(each[name], weight) for each, weight in zip(values, self._weights, strict=True) if name in each]
            device, total = there[0][0].device, sum(weight for _, weight in there) or 1.0
            means[name] = torch.stack([value.to(device) * (weight / total) for value, weight in there]).sum()
        return means

    def _gather_rows(self, found: list[Findings]) -> None:
        algorithm = self._run.algorithm
        for name, own in algorithm.row_results.items():
            theirs = [torch.from_numpy(each.rows[name]).to(own.device) for each in found if name in each.rows]
            algorithm.row_results[name] = torch.cat([own, *theirs])

    def _ask(self, jobs: Sequence[Any]) -> list[Any]:
        for worker, job in enumerate(jobs):
            self._pool.submit(job, worker)
        return self._answers()

    def _answers(self) -> list[Any]:
        """Return the answer of each learner to its last job, in order."""
        answers: dict[int, Any] = {}
        while len(answers) < self._pool.num_workers:
            result = self._pool.collect()
            if result is None or result.value is None:
                self._give_up("it does not answer")
            answers[result.worker] = result.value
        return [answers[worker] for worker in sorted(answers)]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Raise RunError with the reason where a learner is lost inside the block."""
        try:
            yield
        except LearnerLost as lost:
            self._give_up(str(lost))

    def _give_up(self, symptom: str) -> NoReturn:
        """Raise RunError: the runner's own where it knows which learner has died, otherwise one with the symptom."""
        self.close()  # so that none waits for another
        deadline = time.monotonic() + _REASONS
        while time.monotonic() < deadline:
            if self._pool.collect(deadline - time.monotonic()) is None:
                break
        raise RunError(f"a learner was lost: {symptom}")


def _in_loss(run: Run) -> dict[str, Any]:
    """Return the configurations of the callbacks that take part in the loss: loggers have nothing to do elsewhere."""
    there = {each.name for each in run.hooks.implementers(*IN_LOSS) if each.kind == "callback"}
    return {key: config for key, config in run.config.callbacks.items() if config.name in there}
