"""The check of algorithms that let their steps be compiled and recorded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING

from maze_compile.compiled import CompileRecorder
from maze_compile.repeatable import networks_of, unrepeatable
from maze_compile.steps import RepeatedSteps
from pydantic import ValidationError

from maze_core import Plugin, hookimpl
from maze_core.learn.taken_over import declares
from maze_core.run import api
from maze_devkit import runs
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.interpretation import Interpretation
from maze_devkit.rehearsal import rehearse
from maze_devkit.subject import Subject, blamed

if TYPE_CHECKING:
    from maze_core import EpochReport, Run

_SHARE = 0.9
"""By what numbers are multiplied."""
_ALL = 10**6


def change_config(run: Run) -> None:
    """Change all numbers of the algorithm's configuration that may be less."""
    config = run.algorithm.config
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, float) and value:
            try:
                config = type(config).model_validate({**dict(config), name: value * _SHARE})
            except ValidationError:
                continue
    run.algorithm.config = config


def change_clipping(run: Run) -> None:
    """Clip gradients, or clip them further."""
    run.learner.max_grad_norm = 0.01


def change_optimizer(run: Run) -> None:
    """Change the decays of an optimizer that has some."""
    for group in run.learner.optimizer.param_groups:
        if "betas" in group:
            group["betas"] = (0.5, 0.9)


def change_modules(run: Run) -> None:
    """Change the mode of all modules, and numbers that those of torch have."""
    for network in networks_of(run).values():
        for module in network.modules():
            module.training = not module.training
            for name in ("p", "eps", "negative_slope", "alpha", "beta"):
                if isinstance(value := vars(module).get(name), float):
                    setattr(module, name, value * _SHARE)


def freeze(run: Run) -> None:
    """Freeze a parameter of several."""
    learning = [parameter for parameter in run.learner.parameters if parameter.requires_grad]
    if len(learning) > 1:
        learning[0].requires_grad_(False)


CHANGES: tuple[Callable[[Run], None], ...] = (
    change_config, change_clipping, change_optimizer, change_modules, freeze,
)  # fmt: skip
"""What is changed, one after each epoch."""


class Changing(Plugin):
    """Changes what steps depend on while a run trains."""

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Change the next part."""
        if run.epoch <= len(CHANGES):
            CHANGES[run.epoch - 1](run)


def _compiles(subject: Subject) -> None:
    if not declares(subject.plugin, "loss_constants"):
        raise NotApplicable("it does not define `loss_constants`")
    subject.bench.once(subject, rehearse).succeeded()
    epochs = len(CHANGES) + 1
    values = {
        "callbacks.changing.name": "changing", "algorithm.n_epochs": epochs, "closed_form": False, "compile": "off",
    }  # fmt: skip
    more = {("callback", "changing"): Changing}
    with runs.started(subject, runs.walk(subject), subject.folder / "run", values, more) as run:
        if (reason := unrepeatable(run)) is not None:
            raise NotApplicable(reason)
        _train(subject, run)


def _train(subject: Subject, run: Run) -> None:
    """Train a run whose steps are all taken both ways and compared."""
    recorder = CompileRecorder(run, at_once=True, make=Interpretation, compared=_ALL, kinds=_ALL)
    run.repeated = RepeatedSteps(run, recorder)
    try:
        with redirect_stderr(StringIO()):  # from which step on each kind is compiled
            api.carry_out(run)
    except Exception as error:
        raise Failed(f"its steps fail where they are compiled: {blamed(subject, error)}") from error
    if run.repeated.given_up:
        raise Failed(f"its steps cannot be compiled: {run.repeated.reason or 'its loss brings its own gradients'}")
    if not run.state.compiled_kinds:
        raise NotApplicable("none of its steps could be compiled")


CHECKS = (
    Check(
        "compiles",
        "If it defines `loss_constants`, steps that were written down once give what the code gives, also where "
        "configuration, clipping, optimizer, modules and what learns are changed between two epochs.",
        "On a GPU steps are repeated from recordings, on a CPU as compiled code: what they read elsewhere would stay "
        "what it was at the first step.",
        "Return in `loss_constants` whatever else the loss depends on, keep what it keeps in `row_results`, or do "
        "without `loss_constants`.",
        _compiles,
    ),
)
"""The check of compiled steps."""
