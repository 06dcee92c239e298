"""Very short runs, for checks of plugins that take part in training."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv

from maze_core import ConfigError, MazeError
from maze_core.plugins.config.assembly import DEFAULTS, Assembly
from maze_core.plugins.discovery import describe
from maze_core.run import api
from maze_core.run.saved import saved_run
from maze_devkit.findings import NotApplicable
from maze_devkit.probes import Walk
from maze_devkit.several import Seats, kind_of
from maze_devkit.subject import AnyEnv, MakeEnv, Subject

if TYPE_CHECKING:
    from maze_core import Run, RunConfig

QUICK: Mapping[str, Any] = {
    "runner.name": "dev",
    "evaluation.num_envs": 2,
    "evaluation.n_episodes": 1,
    "model.name": "template",
    "model.hidden": [16],
    "model.leaf_hidden": [16],
    "model.image_features": 16,
    **{f"callbacks.{name}": None for name in DEFAULTS["callbacks"]},
}
"""A run with only the plugin, and small networks for any observation."""
SMALL: Mapping[str, Any] = {
    "n_epochs": 2,
    "epoch_length": 2,
    "device": "cpu",
    "n_rollout_steps": 8,
    "num_envs": 2,
    "n_optimization_epochs": 2,
    "batch_size": 8,
    "initial_buffer_size": 16,
    "replay_buffer_size": 1000,
}
"""Small values for parameters that many algorithms have, where they have them."""
BROKEN_RUN = "a small run fails, see the check `trains`"


def quick(asked: Mapping[str, Any], assembly: Assembly) -> dict[str, Any]:
    """Return `QUICK` for a run with the values `asked`: sizes only of networks that the model has."""
    part = asked.get("model", {})
    named = part.get("name") if isinstance(part, Mapping) else part
    name = asked.get("model.name") or named or QUICK["model.name"]
    fields = assembly.load("model", name).Config.model_fields
    kept = {path: value for path, value in QUICK.items() if path.partition("model.")[2] in ("", *fields)}
    return {**kept, "model.name": name}


def continuous(subject: Subject) -> bool:
    """Return True if the algorithm supports only continuous actions."""
    return spaces.Discrete not in subject.plugin.action_spaces


def walk(subject: Subject) -> AnyEnv:
    """Return the environment for checks that do not depend on it."""
    trial: AnyEnv | None = subject.walk.env
    return trial or functools.partial(Walk, continuous(subject))


def single(env: AnyEnv) -> MakeEnv:
    """Return what an agent acts in, for those of several that have an environment each; else one of the kit's."""
    if not issubclass(kind_of(env, look=False), MultiAgentEnv):
        return cast("MakeEnv", env)
    seats = isinstance(env, functools.partial) and env.func is Seats
    return cast("MakeEnv", env.args[0]) if seats else Walk  # type: ignore[attr-defined]


def configured(subject: Subject, env: AnyEnv, assembly: Assembly, values: Mapping[str, Any]) -> RunConfig:
    """Return the configuration of a run of an algorithm; `values` by path override everything else."""
    trial = subject.trial(single(env))
    fields = subject.plugin.Config.model_fields
    own = {name: value for name, value in SMALL.items() if name in fields} | dict(trial.parameters)
    flags = {
        **quick(trial.run, assembly),
        "env.name": "factory",
        "seed": 1,
        "algorithm.name": subject.name,
        **{f"algorithm.{name}": value for name, value in own.items()},
        **trial.run,
        **values,
    }
    return assembly.assemble(preset="none", flags=flags)


@contextmanager
def started(
    subject: Subject,
    env: AnyEnv,
    folder: Path,
    values: Mapping[str, Any] | None = None,
    more: Mapping[tuple[str, str], Any] | None = None,
) -> Iterator[Run]:
    """Start a new run of an algorithm and close it after the block; nothing has been stepped.

    Args:
        subject: the algorithm.
        env: builds its environments.
        folder: the run directory.
        values: parts of the configuration by path.
        more: further plugin classes by kind and name.
    """
    config = configured(subject, env, subject.assembly(env, more), values or {})
    with closing(api.start(config, folder)) as run:
        yield run


def train(
    subject: Subject,
    env: AnyEnv,
    folder: Path,
    values: Mapping[str, Any] | None = None,
    more: Mapping[tuple[str, str], Any] | None = None,
    until: int | None = None,
) -> dict[str, torch.Tensor]:
    """Train a new run to its end, or for `until` epochs of it, and return what it learned.

    Raises:
        NotApplicable: it fails, which the check `trains` reports.
    """
    try:
        with started(subject, env, folder, values, more) as run:
            run.until_epoch = until or run.until_epoch
            api.carry_out(run)
            return learned(run)
    except (MazeError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise NotApplicable(f"{BROKEN_RUN} ({describe(error)})") from error


def resume(subject: Subject, env: AnyEnv, folder: Path, epochs: int) -> dict[str, torch.Tensor]:
    """Reopen a saved run, train it to `epochs`, and return what it learned."""
    overrides = [f"algorithm.n_epochs={epochs}"]
    with closing(saved_run.reopen(folder, overrides, assembly=subject.assembly(env))) as run:
        api.carry_out(run)
        return learned(run)


def learned(run: Run, further: Mapping[str, torch.nn.Module] | None = None) -> dict[str, torch.Tensor]:
    """Return copies of all parameters and buffers of policy and further networks by name, and the count of steps.

    `further`: the networks besides the policy; None: the algorithm's.
    """
    networks = {"policy": run.policy, **(run.algorithm.modules() if further is None else further)}
    tensors = {
        f"{name}.{key}": tensor.detach().cpu().clone()
        for name, network in networks.items()
        for key, tensor in network.state_dict().items()
    }
    return {**tensors, "environment steps": torch.tensor(run.env_steps)}


def parameters(run: Run) -> dict[str, torch.Tensor]:
    """Return copies of the parameters of policy and further networks by name, trainable or not."""
    networks = {"policy": run.policy, **run.modules}
    named = ((f"{part}.{name}", p) for part, network in networks.items() for name, p in network.named_parameters())
    return {name: parameter.detach().cpu().clone() for name, parameter in named}


def differing(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the names whose values are not equal bit for bit."""
    names = sorted(first.keys() | second.keys())
    return [n for n in names if n not in first or n not in second or not torch.equal(first[n], second[n])]


def accepted(subject: Subject, env: AnyEnv, folder: Path) -> ConfigError | None:
    """Return how an algorithm refuses an environment before the first step; None if it accepts it."""
    try:
        with started(subject, env, folder):
            return None
    except ConfigError as error:
        return error
