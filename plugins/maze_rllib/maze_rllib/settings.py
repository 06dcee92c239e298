"""Sets RLlib's hyperparameters by name, each with the method of RLlib's configuration that takes it, and checks them.

RLlib itself silently accepts a misspelt name, or text for a number.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.terminal_text import shown
from maze_core.plugins.config.explain import combined, nearest
from maze_core.plugins.discovery import describe

_METHODS = (
    "training",
    "env_runners",
    "learners",
    "offline_data",
    "reporting",
    "fault_tolerance",
    "resources",
    "debugging",
    "experimental",
)
"""The methods of RLlib's configuration whose parameters can be set. Maze sets the others."""

_DECIDED = {
    "num_env_runners": "the runner decides it: --runner dev has none, --runner local has runner.workers",
    "env_runner_cls": "Maze reports episodes and errors through one of its own",
    "num_learners": "the learner runs in the process of the run",
    "num_gpus_per_learner": "algorithm.device decides it",
    "seed": "the run's own seed decides it",
    "explore": "RLlib learns from sampled actions, with their probabilities; maze eval --deterministic takes none",
    "use_critic": "the advantages need the critic; to leave its loss out, set vf_loss_coeff to 0",
    "model": "it belongs to RLlib's old interface; with rllib_model, set model_config",
    "env_to_module_connector": "Maze's models see observations as they are",
    "module_to_env_connector": "Maze's models give actions in the environment's units",
    "learner_connector": "Maze's models see observations as they are",
    "normalize_actions": "Maze's distributions give actions in the environment's units",
    "clip_actions": "Maze clips actions where they enter the environment",
    "restart_failed_sub_environments": "an environment that raises ends the run",
    "restart_failed_env_runners": "a worker that dies ends the run, with its checkpoint whole",
    "ignore_env_runner_failures": "a worker that dies ends the run, with its checkpoint whole",
    "gym_env_vectorize_mode": "Maze steps its environments itself",
    "logger_creator": "Maze's callbacks write the logs",
    "logger_config": "Maze's callbacks write the logs",
    "input_": "it is algorithm.dataset",
    "offline_data_class": "Maze reads its own recordings",
    "output": "maze rollout --record and the wrapper record write episodes",
    "output_filesystem": "Maze writes its own recordings",
    "output_filesystem_kwargs": "Maze writes its own recordings",
    "input_filesystem": "Maze reads its own recordings",
    "input_filesystem_kwargs": "Maze reads its own recordings",
    "extra_python_environs_for_driver": "environment variables belong to the command: NAME=VALUE maze train …",
    "extra_python_environs_for_worker": "environment variables belong to the command: NAME=VALUE maze train …",
    "dataset_num_iters_per_learner": "an iteration is one batch; algorithm.epoch_length says how many",
}
"""Parameters of those methods that Maze sets itself, and why."""

_WHERE = "algorithm.rllib"
_NETWORK = "model_config"
"""The parameters of RLlib's default network, which `check_model_config` knows."""


def apply(config: Any, settings: Mapping[str, Any]) -> None:
    """Set RLlib's parameters by name.

    Args:
        config: RLlib's configuration of an algorithm.
        settings: values by name.

    Raises:
        ConfigError: a name that RLlib does not have, with the nearest ones; one that Maze decides; a value of the wrong
            type. All of them at once.
    """
    known = parameters(config)
    errors: list[ConfigError] = []
    calls: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        try:
            method, kind = _find(name, known)
            value = _checked(name, value, kind)
            _check_classes(f"{_WHERE}.{name}", value)
            calls.setdefault(method, {})[name] = _merged(name, value, getattr(config, name, None))
        except ConfigError as error:
            errors.append(error)
    if errors:
        raise combined(errors)
    for method, values in calls.items():
        getattr(config, method)(**values)


@contextmanager
def blamed(settings: Mapping[str, Any], otherwise: str = "", hint: str | None = None) -> Iterator[None]:
    """Name the parameters in `algorithm.rllib` where RLlib fails with them: most of their values only RLlib can check.

    `otherwise` is the setting to name where there are none, and `hint` what to do next.

    Raises:
        ConfigError: RLlib raised something that is no error of Maze.
    """
    names = ", ".join(f"{_WHERE}.{name}" for name in settings)
    try:
        yield
    except ConfigError:
        raise
    except RunError as error:
        if names and "RLlib failed" in str(error):
            error.add_note(f"The run sets {names}, which may be the reason.")
        raise
    except Exception as error:
        if not names and not otherwise:
            raise
        problem = "RLlib fails with it" if "," not in names else "RLlib fails with these"
        raise ConfigError(f"{problem}: {describe(error)[:500]}", names or otherwise, hint) from error


def parameters(config: Any) -> dict[str, tuple[str, Any]]:
    """Return the settable parameters of RLlib's configuration: the method that takes each, and its type."""
    found: dict[str, tuple[str, Any]] = {}
    for method in _METHODS:
        # The most derived class first: PPO's `training` has parameters that the general one lacks.
        for owner in type(config).__mro__:
            function = vars(owner).get(method)
            if function is not None:
                for name, kind in _keywords(function).items():
                    found.setdefault(name, (method, kind))
    if hasattr(config, "rl_module"):
        found.setdefault(_NETWORK, ("rl_module", dict[str, Any]))
    return found


def check_model_config(values: Mapping[str, Any]) -> None:
    """Check the parameters of RLlib's default network. Raises ConfigError for an unknown one."""
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    _check_keys(f"{_WHERE}.{_NETWORK}", values, [field.name for field in dataclasses.fields(DefaultModelConfig)])
    kinds = get_type_hints(DefaultModelConfig)
    errors: list[ConfigError] = []
    for name, value in values.items():
        try:
            _checked(f"{_NETWORK}.{name}", value, kinds[name])
        except ConfigError as error:
            errors.append(error)
    if errors:
        raise combined(errors)


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the keyword parameters of a method with their types; Any without an annotation, or if it is a string."""
    keywords = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {p.name: Any if isinstance(p.annotation, str) or p.annotation is p.empty else p.annotation for p in keywords}


def _find(name: str, known: Mapping[str, tuple[str, Any]]) -> tuple[str, Any]:
    if name in _DECIDED:
        raise ConfigError(f"cannot be set: {_DECIDED[name]}", f"{_WHERE}.{name}")
    if name not in known:
        near = nearest(name, sorted(known.keys() - _DECIDED.keys()))
        hint = near if near.startswith("did you mean") else "RLlib's documentation of this algorithm lists them"
        raise ConfigError(f"RLlib has no such parameter; {hint}", f"{_WHERE}.{name}")
    return known[name]


def _checked(name: str, value: Any, kind: Any) -> Any:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:
        adapter = TypeAdapter(kind)
    except Exception:  # noqa: BLE001 — RLlib's annotations are not made for this, and some cannot be used
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        kinds = list(dict.fromkeys(problem["msg"].removeprefix("Input should be ") for problem in error.errors()))
        text = f"must be {' or '.join(kinds[:3])}, got {value!r:.80}"
        raise ConfigError(text, f"{_WHERE}.{name}") from None


def _check_classes(where: str, value: Any) -> None:
    """Raise ConfigError if a class is named by its path: RLlib would import the module and call whatever it names."""
    for key, each in value.items() if isinstance(value, Mapping) else ():
        if key == "type" and isinstance(each, str) and not each.isidentifier():
            raise ConfigError(f"{shown(each)} is not the name of one of RLlib's own classes", f"{where}.{key}")
        _check_classes(f"{where}.{key}", each)


def _merged(name: str, value: Any, default: Any) -> Any:
    """Return a mapping merged over its default, which has all keys."""
    if name == _NETWORK or not isinstance(value, dict) or not isinstance(default, dict) or not default:
        return value
    _check_keys(f"{_WHERE}.{name}", value, default)
    return {**default, **value}


def _check_keys(where: str, values: Mapping[str, Any], known: Any) -> None:
    errors = [
        ConfigError(f"unknown key; {nearest(key, known)}", f"{where}.{key}") for key in values if key not in known
    ]
    if errors:
        raise combined(errors)
