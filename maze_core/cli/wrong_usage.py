"""Errors of the command line's own form, in the form of all others, and what to type instead: one table.

It is imported where something was typed wrong. `{command}` is the command that was typed, such as `maze train ppo`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from maze_core.base.errors import ConfigError


def wrong_usage(error: Any) -> ConfigError:
    """Return an error about arguments as one of Maze, with what to type instead."""
    context = error.ctx
    asked = f"{context.command_path} -h" if context is not None else "maze -h"
    option = getattr(error, "option_name", None)
    if option is None or not hasattr(error, "possibilities"):
        text = error.format_message().rstrip(".")
        extra = re.findall(r"(?:^|[( ])([^\s()]+)(?=[ )])", text.partition("extra argument")[2].partition("(s) ")[2])
        hint = arguments_instead(extra, context.command_path) if context is not None else None
        return ConfigError(f"{text[:1].lower()}{text[1:]}", hint=hint or f"Next: {asked}")
    parameters = context.command.params if context else ()
    known = [name for each in parameters for name in each.opts]
    hint = _of_run(option, known, [each.name for each in parameters])
    hint = hint or option_instead(option, context.command_path if context is not None else "maze")
    hint = hint or _instead(option, error.possibilities, known)
    return ConfigError("there is no such option", option, hint or f"Next: {asked}")


def _of_run(option: str, known: list[str], names: list[str | None]) -> str | None:
    """Return what to type for an option that the run of a command has decided; None for others."""
    if option != "--env" or "run" not in names:
        return None
    change = " To change it: --set env.id=ID" if "--set" in known else ""
    return f"The environment is that of the run.{change}\nWithout a run: maze rollout --policy NAME --env ID"


def _instead(option: str, near: Any, known: list[str]) -> str | None:
    """Return what to type instead of an option; None where nothing comes near."""
    from maze_core.plugins.config.peers import PEERS, bare

    path = PEERS.get(bare(option), "")
    flag = f"--{path.rpartition('.')[2].replace('_', '-')}"
    if path and flag in known:
        return f"In Maze it is {flag}"
    if path and "--set" in known:
        return f"In Maze it is --set {path}=VALUE"
    return f"Did you mean {' or '.join(sorted(near))}?" if near else None


_COMMANDS = {
    "help": "Next: maze --help, or the same of a command: maze train --help, maze train ppo --help",
    "version": "Next: maze --version",
    "test": "To evaluate a run: maze eval RUN; to check an environment: maze envs check ID",
    "list ls": "Next: maze runs list, maze envs list, or maze plugins list",
    "info describe": "Next: maze plugins info NAME; of a run: maze config show RUN",
    "show": "Next: maze config show RUN; of a plugin: maze plugins info NAME",
    "run start learn fit": "Next: maze train ppo --env CartPole-v1",
    "evaluate": "Next: maze eval RUN",
    "play": "Next: maze rollout RUN; in a browser: maze view RUN",
    "watch": "Next: maze view RUN; while runs train: maze runs watch",
    "render enjoy": "Next: maze view RUN; as films: maze rollout RUN --video DIR",
    "continue restart": "Next: maze resume RUN",
    "branch clone": "Next: maze fork RUN",
    "finetune": "Next: maze train ppo --env ID --init-from RUN",
    "tune search": "Next: maze sweep ppo --env CartPole-v1 --over algorithm.lr=1e-4,1e-3",
    "plot": "Next: maze runs plot RUN --out curves.png",
    "compare": "Next: maze runs compare RUN RUN",
    "benchmark": "Next: maze profile ppo --env CartPole-v1; several algorithms: maze runs compare RUN RUN",
    "env environments": "Next: maze envs list",
    "algorithms algos": "Next: maze plugins list algorithms",
    "models": "Next: maze plugins list models",
    "wrappers": "Next: maze plugins list wrappers",
    "new create": "A project: maze init; a plugin: maze plugins new KIND NAME",
    "tensorboard": "Next: tensorboard --logdir runs",
}
COMMANDS: Mapping[str, str] = {name: advice for names, advice in _COMMANDS.items() for name in names.split()}
"""By what was typed in place of a command."""

_STEPS = "Next: {command} --steps N, environment steps summed over all environments"
_RUN_DIR = "The folder of the run: {command} --run-dir DIR"
_WORKERS = "Next: {command} --runner local --set runner.workers=N"
_START = "To continue a run: maze resume RUN; to start from its parameters: {command} --init-from RUN"
_PICTURES = "Training shows no pictures. Afterwards: maze view RUN, or maze rollout RUN --video DIR"
_PROGRESS = "Progress is printed unless --quiet is given; MAZE_DEBUG=1 shows whole tracebacks"
_EPISODES = "Of an evaluation: {command} --set evaluation.n_episodes=N"
_ALGORITHM = "The algorithm comes first: maze train ppo --env CartPole-v1"
_LONGER = (
    "To train longer: {command} RUN --set steps=N, or --set algorithm.n_epochs=N; N counts from the run's beginning"
)

_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "maze train": {
        "seeds": "A run has one seed. Several: maze sweep {algorithm} --env ID --seeds 5",
        "gpu gpus use_gpu cuda use_cuda": "Next: {command} --device cuda",
        "cpu no_cuda no_gpu": "Next: {command} --device cpu, the default of most algorithms",
        "hidden layers hidden_units": "Next: {command} --set model.hidden=[64,64]",
        "render watch view show human render_mode video record record_video capture_video": _PICTURES,
        "help_all full_help": "`{command} --help` shows every option",
        "tensorboard tb": "Its files are written unless turned off: tensorboard --logdir runs",
        "log_dir logdir log_folder output out output_dir save_dir save save_path name exp_name run_name": _RUN_DIR,
        "verbose v debug progress": _PROGRESS,
        "policy": "The network: {command} --model NAME; `maze plugins list models` shows them",
        "timesteps n_timesteps max_steps max_timesteps train_steps": _STEPS,
        "episodes n_episodes num_episodes max_episodes": _STEPS + "; or --epochs N",
        "eval_episodes eval_eps evaluation_episodes": _EPISODES,
        "checkpoint load load_path resume restore pretrained weights": _START,
        "workers n_workers n_jobs num_processes processes": _WORKERS,
        "threads": "Next: {command} --set threads=N",
        "normalize normalise": "Next: {command} --set model.normalize_observations=true",
        "kwargs env_kwargs env_config env_args": "Next: {command} --set env.kwargs.NAME=VALUE",
        "param params p o override hp": "Next: {command} --set PATH=VALUE",
        "algo algorithm alg agent": _ALGORITHM,
    },
    "maze resume": {
        "steps epochs timesteps total_timesteps n_timesteps more": _LONGER,
        "seed seeds": "A run keeps its seed. Another one: maze train {algorithm} --init-from RUN",
        "run_dir dir run from load": "The run is the argument: maze resume RUN",
    },
    "maze fork": {
        "steps epochs timesteps total_timesteps n_timesteps more": _LONGER,
        "seed seeds": "A fork has its parent's seed. Another: maze train {algorithm} --init-from RUN",
        "run from load": "The run is the argument: maze fork RUN",
    },
    "maze eval": {
        "render watch view human": "Next: maze view RUN, or maze eval RUN --video DIR",
        "n_episodes num_episodes n_eval_episodes": "Next: maze eval RUN --episodes N",
        "run_dir dir run load model": "The run is the argument: maze eval RUN",
    },
    "maze rollout": {
        "render watch view human": "Next: maze view RUN, or maze rollout RUN --video DIR",
        "n_episodes num_episodes": "Next: maze rollout RUN --episodes N",
    },
    "maze sweep": {
        "seed": "Next: {command} --seeds 3, or a list of them: --seeds 7,8,9",
        "grid search space param": "Next: {command} --over algorithm.lr=1e-4,1e-3",
    },
}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    command: {name: advice for names, advice in table.items() for name in names.split()}
    for command, table in _OPTIONS.items()
}
"""By the beginning of the command, and then by the option's name with `_` for `-`."""


def command_instead(name: str) -> str | None:
    """Return what to type for a command that there is not; None where nothing is known of it."""
    from maze_core.plugins import discovery

    if name.lower() in discovery.names("algorithm"):
        return f"It is an algorithm. Next: maze train {name.lower()} --env CartPole-v1"
    return COMMANDS.get(name.lower())


def option_instead(option: str, command: str) -> str | None:
    """Return what to type for an option that a command does not have; None where nothing is known of it."""
    name = option.lstrip("-").replace("-", "_").lower()
    found = next((table.get(name) for start, table in OPTIONS.items() if f"{command} ".startswith(f"{start} ")), None)
    return None if found is None else found.format(command=command, algorithm=_algorithm(command))


def arguments_instead(given: Sequence[str], command: str) -> str | None:
    """Return what to type for arguments that a command does not take; None where nothing is known of them."""
    from maze_core.base.terminal_text import argument

    if not given:
        return None
    first = argument(given[0])
    if command.startswith("maze train "):
        return f"Next: {command} {'--set' if '=' in given[0] else '--env'} {first}"
    if command in ("maze resume", "maze fork", "maze eval"):
        return f"One run at a time. Next: {command} RUN"
    return None


def _algorithm(command: str) -> str:
    words = command.split()
    return words[2] if words[:2] == ["maze", "train"] and len(words) > 2 else "ALGORITHM"
