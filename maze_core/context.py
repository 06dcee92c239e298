"""The Python API: one object for a run, from its parts to its results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from maze_core.config.base import PluginConfig
from maze_core.config.load import assemble
from maze_core.envs.factory_source import FactorySource
from maze_core.errors import ConfigError
from maze_core.models.custom import CustomModel
from maze_core.plugins import discovery
from maze_core.training import api
from maze_core.training.acting import compute_action
from maze_core.training.rollouts import roll_out, task_of_run
from maze_core.training.run import FINAL_EVALUATION
from maze_core.training.run_dir import CONFIG, find_run
from maze_core.training.seeding import draw_seed

if TYPE_CHECKING:
    import gymnasium
    from torch import nn

    from maze_core.config.run import RunConfig
    from maze_core.data.trajectories import Trajectory
    from maze_core.models.policy import Policy
    from maze_core.training.report import RunSummary
    from maze_core.training.run import Run

Part = str | Mapping[str, Any] | PluginConfig
"""A plugin by name, by name and parameters, or by its configuration."""


class RunContext:
    """A run in Python: choose the parts, train, evaluate, act.

        with RunContext(env="CartPole-v1", algorithm="ppo", overrides={"algorithm.lr": 1e-3}, seed=1) as context:
            context.train(n_epochs=10)
            print(context.evaluate())

    Each part is a name, a mapping or a config model; `env` may also be a callable that builds an environment, `model`
    an `nn.Module` class (see `maze_core.models.custom`), a callback a plugin class.

    Args:
        env: environment id, or a part, or a callable.
        algorithm: an algorithm plugin.
        model: a model plugin, or a class.
        wrappers: environment wrappers, the first innermost.
        runner: how environments are stepped.
        callbacks: further callbacks by name, as parts or plugin classes; None removes a default one.
        config: YAML files, read in order.
        preset: name of a preset of the algorithm, `auto` or `none`.
        overrides: values by path, such as `{"algorithm.lr": 1e-3}`; they win over everything else.
        seed: the seed of the run; None: one is drawn.
        steps: environment steps to train.
        run_dir: the run's own folder; None: one below `runs/`.
        init_from: a run directory to start the parameters from.
        silent: print nothing.

    Raises:
        ConfigError: the configuration is wrong.
    """

    def __init__(
        self,
        env: Part | Callable[[], gymnasium.Env[Any, Any]],
        algorithm: Part = "ppo",
        model: Part | Callable[..., nn.Module] | None = None,
        wrappers: Sequence[Part] = (),
        runner: Part | None = None,
        callbacks: Mapping[str, Part | type[Any] | None] | None = None,
        *,
        config: Sequence[Path | str] = (),
        preset: str = "auto",
        overrides: Mapping[str, Any] | None = None,
        seed: int | None = None,
        steps: int | None = None,
        run_dir: Path | str | None = None,
        init_from: Path | str | None = None,
        silent: bool = False,
    ) -> None:
        classes: dict[tuple[str, str], type[Any]] = {}
        flags: dict[str, Any] = {"wrappers": [_plain("wrapper", w) for w in wrappers]} if wrappers else {}
        flags["env"] = _env_part(env, classes)
        flags["algorithm"] = _plain("algorithm", algorithm)
        if model is not None:
            flags["model"] = _model_part(model, classes)
        if runner is not None:
            flags["runner"] = _plain("runner", runner)
        for name, callback in (callbacks or {}).items():
            flags[f"callbacks.{name}"] = _callback_part(name, callback, classes)
        if silent:
            flags["callbacks.console"] = None
        flags |= {name: value for name, value in (("seed", seed), ("steps", steps)) if value is not None}
        self._load = discovery.overlay(classes)
        self._init_from = None if init_from is None else find_run(Path(init_from))
        self.config: RunConfig = assemble(
            preset=preset,
            files=[Path(path) for path in config],
            flags=flags | dict(overrides or {}),
            load=self._load,
            parent=self._init_from and self._init_from / CONFIG,
        )
        self._run_dir = None if run_dir is None else Path(run_dir)
        self._changes = _texts(({} if steps is None else {"steps": steps}) | dict(overrides or {}))
        self._run: Run | None = None
        self._trains = True

    @classmethod
    def reopen(cls, run_dir: Path | str, overrides: Mapping[str, Any] | None = None, checkpoint: str = "last") -> Self:
        """A context that stands exactly where a saved run's checkpoint left it, ready to train on.

        Runs whose parts were ready objects need them again: build the context as before and call `resume`.
        """
        return cls._of(api.reopen(Path(run_dir), _texts(overrides), checkpoint), trains=True)

    @classmethod
    def open(cls, run_dir: Path | str, checkpoint: str | None = None) -> Self:
        """A context with the policy of a saved run, to evaluate or to act; it cannot train.

        Neither training data nor optimizer are needed. `checkpoint` is best, last or previous; None: the best, or the
        last where there is none.
        """
        return cls._of(api.open_policy(Path(run_dir), checkpoint), trains=False)

    @classmethod
    def _of(cls, run: Run, trains: bool) -> Self:
        context = cls.__new__(cls)
        context._load, context._changes = discovery.load, []
        context._run, context.config, context._trains = run, run.config, trains
        context._run_dir, context._init_from = run.run_dir, None
        return context

    @property
    def run(self) -> Run:
        """The run, built and given its directory at first use."""
        if self._run is None:
            self._run = api.start(self.config, self._run_dir, self._init_from, load=self._load)
            self.config = self._run.config
        return self._run

    @property
    def policy(self) -> Policy:
        """The policy network."""
        return self.run.policy

    @property
    def run_dir(self) -> Path:
        """The run directory."""
        folder = self.run.run_dir
        if folder is None:
            raise RuntimeError("this run has no directory")
        return folder

    def train(self, n_epochs: int | None = None) -> RunSummary:
        """Train to the run's end, or for `n_epochs` more epochs. May be called again.

        Raises:
            ConfigError: the context was opened to act only.
            RunError: the run cannot go on.
        """
        run = self.run
        if not self._trains:
            raise ConfigError(
                "this context was opened to evaluate and to act; it cannot train",
                hint=f'To train on: RunContext.reopen("{run.run_dir}")',
            )
        run.until_epoch = run.epoch + n_epochs if n_epochs else self.config.algorithm.n_epochs or None
        return api.carry_out(run)

    def resume(self, run_dir: Path | str, checkpoint: str = "last") -> RunSummary:
        """Go on with the saved run in `run_dir` to its end, using the ready objects of this context.

        The `steps` and `overrides` that the context was given replace what the run was configured with.
        """
        self.close()
        self._run = api.reopen(Path(run_dir), self._changes, checkpoint, load=self._load)
        self.config, self._trains = self._run.config, True
        return api.carry_out(self._run)

    def evaluate(self, deterministic: bool | None = None) -> dict[str, float]:
        """Evaluate the policy as it is now. Returns `eval/…` metrics of raw returns."""
        return self.run.evaluate(FINAL_EVALUATION, deterministic=deterministic)

    def rollout(
        self,
        episodes: int = 8,
        *,
        deterministic: bool | None = None,
        record: Path | str | None = None,
        workers: int = 1,
        seed: int | None = None,
    ) -> list[Trajectory]:
        """Let the policy as it is now play, and return what happened.

        Args:
            episodes: how many.
            deterministic: most likely actions instead of samples; None: as evaluations are configured.
            record: a new folder to record the episodes in.
            workers: processes that play; the result does not depend on them.
            seed: decides the episodes; None: a fresh one.
        """
        task = task_of_run(self.run, draw_seed() if seed is None else seed, deterministic)
        played: list[Trajectory] = []
        folder = None if record is None else Path(record)
        roll_out(task, episodes, workers=workers, record=folder, watch=played.append, load=self._load)
        return played

    def compute_action(self, observation: Any, deterministic: bool = True) -> Any:
        """The action for one observation, both as the environment's own spaces have them."""
        return compute_action(self.policy, observation, deterministic=deterministic)

    def close(self) -> None:
        """Release environments and workers; safe to call twice."""
        if self._run is not None:
            self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _plain(kind: str, part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"name": part}
    if isinstance(part, PluginConfig):
        return {**part.model_dump(exclude_unset=True), "name": part.name or _name_of(kind, part)}
    return dict(part)


def _name_of(kind: str, config: PluginConfig) -> str:
    """The name of the plugin that a configuration is for, looked for in the package it comes from."""
    package = type(config).__module__.partition(".")[0]
    neighbours = [
        each.name
        for each in discovery.declarations()
        if each.kind == kind and each.entry_point.module.partition(".")[0] == package
    ]
    names = [name for name in neighbours if discovery.load(kind, name).Config is type(config)]
    if len(names) != 1:
        title = type(config).__name__
        raise ConfigError(f"{title} does not say which plugin it is for", kind, f'Name it: {title}(name="…", …)')
    return names[0]


def _env_part(env: Any, classes: dict[tuple[str, str], type[Any]]) -> dict[str, Any]:
    if isinstance(env, str):
        return {"id": env}
    if isinstance(env, Mapping | PluginConfig):
        return _plain("env", env)
    if not callable(env):
        raise ConfigError(f"must be an id, a mapping, a config or a callable, got {type(env).__name__}", "env")
    classes["env", "factory"] = FactorySource.of(env)
    return {"name": "factory", "factory": FactorySource.origin(env)}


def _model_part(model: Any, classes: dict[tuple[str, str], type[Any]]) -> dict[str, Any]:
    if isinstance(model, str | Mapping | PluginConfig):
        return _plain("model", model)
    if not callable(model):
        raise ConfigError(f"must be a name, a mapping, a config or a class, got {type(model).__name__}", "model")
    classes["model", "custom"] = CustomModel.of(model)
    return {"name": "custom", "source": FactorySource.origin(model)}


def _callback_part(name: str, callback: Any, classes: dict[tuple[str, str], type[Any]]) -> dict[str, Any] | None:
    if callback is None:
        return None
    if isinstance(callback, type):
        classes["callback", name] = callback
        return {"name": name}
    if isinstance(callback, PluginConfig) and not callback.name:
        return {**callback.model_dump(exclude_unset=True), "name": name}
    return _plain("callback", callback)


def _plain_value(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_unset=True) if isinstance(value, PluginConfig) else str(value)


def _texts(overrides: Mapping[str, Any] | None) -> list[str]:
    """Overrides as `path=value` texts; JSON is YAML."""
    return [f"{path}={json.dumps(value, default=_plain_value)}" for path, value in (overrides or {}).items()]
