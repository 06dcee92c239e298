"""The Python API: one object configures, trains and uses a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import draw_seed
from maze_core.collect.agents.single import SingleAgent, compute_action, compute_actions
from maze_core.collect.policies.said_classes import said_classes
from maze_core.envs.interfaces import lasting_parts
from maze_core.envs.wrappers import lasting_layers, recall
from maze_core.models.building import ACTORS
from maze_core.plugins.config.assembly import INSTALLED, Assembly, asks_for_patience, part_config
from maze_core.plugins.config.experiments import experiment as experiment_file
from maze_core.plugins.config.raw import merge
from maze_core.plugins.config.record import CONFIG
from maze_core.plugins.extensions import RECORDINGS, extension, in_notebook
from maze_core.run import api
from maze_core.run.episodes.run_evaluation import FINAL_EVALUATION
from maze_core.run.parts import (
    Part,
    Parts,
    acting_policy,
    as_count,
    as_path,
    as_texts,
    as_values,
    check_options,
    unknown_argument,
    wrapper_classes,
)
from maze_core.run.python_words import in_python_words
from maze_core.run.report import Played, Scores
from maze_core.run.saved import saved_run
from maze_core.run.saved.found_run import find_run

if TYPE_CHECKING:
    import gymnasium
    from torch import nn

    from maze_core.collect.agents.looking_ahead import PlanningBeside
    from maze_core.collect.agents.single import SeveralAgents
    from maze_core.models.policy import Policy
    from maze_core.plugins.config.run import RunConfig
    from maze_core.run.report import RunSummary
    from maze_core.run.run import Run


@in_python_words
class RunContext:
    """A run in Python: choose the parts, train, evaluate, act.

        with RunContext(env="CartPole-v1", algorithm="ppo", overrides={"algorithm.lr": 1e-3}, seed=1) as context:
            context.train(n_epochs=10)
            print(context.evaluate())

    Each part is a name, a mapping, a config model or a plugin class; `env` may also be a callable that builds an
    environment, a wrapper one that takes and returns an environment, `model` and `critic` an `nn.Module` class (see
    `maze_models.custom`). A module that is already built is copied: training does not change it.

    Args:
        env: environment id, or a part, or a callable; None: that of the experiment.
        algorithm: an algorithm plugin; None: that of the experiment, else PPO.
        model: a model plugin, or a network.
        wrappers: environment wrappers, the first innermost.
        critic: the state critic: separate, shared or none, or a class (or module) of its own encoder.
        runner: where environments are stepped.
        callbacks: further callbacks by name, as parts or plugin classes; None removes a default one.
        experiment: name of an experiment, a file of the folder `experiments` or of an installed package.
        config: a YAML file, or several, read in order, after the experiment.
        preset: name of a preset of the algorithm, `auto` or `none`.
        overrides: values by path, such as `{"algorithm.lr": 1e-3}`; they override everything else.
        seed: the seed of the run; None: one is drawn.
        steps: environment steps to train.
        epochs: epochs to train; the same as the override `algorithm.n_epochs`.
        max_time: seconds, or a text such as `2h`, after which training ends with everything saved.
        run_dir: the run's own folder; None: one below `runs/`.
        init_from: a run directory to start the parameters from.
        silent: print nothing.

    Raises:
        ConfigError: the configuration is wrong.
    """

    def __init__(
        self,
        env: Part | Callable[[], gymnasium.Env[Any, Any]] | None = None,
        algorithm: Part | None = None,
        model: Part | Callable[..., nn.Module] | None = None,
        wrappers: Sequence[Part | Callable[[Any], gymnasium.Env[Any, Any]]] = (),
        critic: str | Callable[..., nn.Module] | None = None,
        runner: Part | None = None,
        callbacks: Mapping[str, Part | None] | None = None,
        *,
        experiment: str | None = None,
        config: Path | str | Sequence[Path | str] = (),
        preset: str = "auto",
        overrides: Mapping[str, Any] | None = None,
        seed: int | None = None,
        steps: int | None = None,
        epochs: int | None = None,
        max_time: float | str | None = None,
        run_dir: Path | str | None = None,
        init_from: Path | str | None = None,
        silent: bool = False,
        **others: Never,
    ) -> None:
        for name in others:
            raise unknown_argument(name, algorithm, signature(RunContext).parameters)
        if not isinstance(experiment, str | None):
            raise ConfigError("must be the name of an experiment", "experiment")
        check_options(silent=silent)
        parts = Parts()
        learner = None if algorithm is None and experiment is not None else algorithm or "ppo"
        flags = parts.flags(env, learner, model, wrappers, critic, runner, callbacks)
        if silent:
            flags["callbacks.console"] = None
        ends = {"steps": steps, "algorithm.n_epochs": epochs, "max_time": max_time}
        ends = {name: value for name, value in ends.items() if value is not None}
        flags |= ends if seed is None else {**ends, "seed": seed}
        values = as_values(overrides)
        self._assembly = Assembly(said_classes(values, load=parts.load))
        self._init_from = None if init_from is None else find_run(as_path("init_from", init_from))
        self._run_dir = None if run_dir is None else as_path("run_dir", run_dir)
        files = [config] if isinstance(config, str | Path) else config
        named = [] if experiment is None else [experiment_file(experiment)]
        layers = [*named, *(as_path("config", path) for path in files)]
        self.config: RunConfig
        self.config, self._preset = self._assembly.assemble_with_preset(
            preset=preset,
            files=layers,
            flags=merge(flags, values),
            parent=self._init_from and self._init_from / CONFIG,
        )
        self._asks_for_patience = asks_for_patience(layers, merge(flags, values))
        self._changes = as_texts(ends | values)
        self._run: Run | None = None
        self._trains = True

    @classmethod
    def reopen(cls, run_dir: Path | str, overrides: Mapping[str, Any] | None = None, checkpoint: str = "last") -> Self:
        """Return a context with the exact state of a saved run's checkpoint, ready to continue training.

        A run built from Python objects needs them again: build the context as before and call `resume`.
        """
        return cls._of(saved_run.reopen(Path(run_dir), as_texts(overrides), checkpoint), trains=True)

    @classmethod
    def fork(
        cls,
        run_dir: Path | str,
        overrides: Mapping[str, Any] | None = None,
        checkpoint: str = "last",
        new_dir: Path | str | None = None,
    ) -> Self:
        """Open a new run that begins with the whole state of a saved one, to train; the saved one stays as it is.

        Without overrides it ends bit for bit as that one does. `checkpoint` is last, previous or best; `new_dir` the
        new run's own folder, by default one beside the other. Errors as for `reopen`.
        """
        folder = None if new_dir is None else as_path("new_dir", new_dir)
        return cls._of(_branch()(Path(run_dir), as_texts(overrides), checkpoint, run_dir=folder), trains=True)

    @classmethod
    def open(
        cls, run_dir: Path | str, checkpoint: str | None = None, overrides: Mapping[str, Any] | None = None
    ) -> Self:
        """Return a context with the policy of a saved run, to evaluate or to act; it cannot train.

        Neither training data nor optimizer are needed. `checkpoint` is best, last or previous; None: the best, or the
        last if there is none. Parts that write, such as the wrapper `record`, are left out unless an override sets
        where. A run built from Python objects needs them again: build the context as before and call `load`.
        """
        return cls._of(saved_run.open_policy(Path(run_dir), checkpoint, as_texts(overrides)), trains=False)

    @classmethod
    def _of(cls, run: Run, trains: bool) -> Self:
        context = cls.__new__(cls)
        context._assembly, context._changes, context._asks_for_patience = INSTALLED, [], True
        context._run, context.config, context._trains = run, run.config, trains
        run.in_python = True
        context._run_dir, context._init_from, context._preset = run.run_dir, None, run.preset or ""
        return context

    @property
    def run(self) -> Run:
        """The run; first use builds it and creates its directory."""
        if self._run is None:
            self._run = api.start(self.config, self._run_dir, self._init_from, preset=self._preset)
            self.config, self._run.in_python = self._run.config, True
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

        The default patience does not end `n_epochs` early; one that was configured does.

        Raises:
            ConfigError: it was opened to act only, or all `steps` are taken and `n_epochs` asks for more.
            RunError: the run cannot continue.
            KeyboardInterrupt: it was interrupted; it is saved, and `run.summary` says how it ended.
        """
        run = self.run
        if not self._trains:
            raise ConfigError(
                "this context was opened for evaluation and acting; it cannot train",
                hint=f'To continue training: RunContext.reopen("{run.run_dir}")',
            )
        n_epochs = as_count("n_epochs", n_epochs)
        if n_epochs and run.steps_done:
            raise ConfigError(
                f"this run has taken all of its {self.config.steps:,} environment steps",
                "steps",
                f'Next: RunContext.reopen("{run.run_dir}", {{"steps": MORE}})',
            )
        run.until_epoch = run.epoch + n_epochs if n_epochs else self.config.algorithm.n_epochs or None
        run.full_length = bool(n_epochs) and not self._asks_for_patience
        return api.carry_out(run)

    def resume(self, run_dir: Path | str, checkpoint: str = "last", *, fork: bool = False) -> RunSummary:
        """Continue the saved run in `run_dir` to its end, with the Python objects of this context.

        The `steps`, `epochs` and `overrides` of this context replace those of the saved configuration.
        `fork`: a new run begins there, in the `run_dir` of this context, and the saved one stays as it is.
        """
        self.close()
        assembly: dict[str, Any] = {"assembly": self._assembly, "agreed": self.config.model_dump(mode="json")}
        saved = Path(run_dir), self._changes, checkpoint
        if fork:
            self._run = _branch()(*saved, run_dir=self._run_dir, **assembly)
        else:
            self._run = saved_run.reopen(*saved, **assembly)
        self.config, self._trains, self._asks_for_patience = self._run.config, True, True
        self._run.in_python = True
        return api.carry_out(self._run)

    def load(self, run_dir: Path | str, checkpoint: str | None = None) -> Self:
        """Load the policy of a saved run, to evaluate or to act, with the Python objects of this context.

        Where the run names a path or an address elsewhere, the configuration of this context must name the same.
        """
        self.close()
        agreed = self.config.model_dump(mode="json")
        self._run = saved_run.open_policy(
            Path(run_dir), checkpoint, wrapper_classes(self.config), assembly=self._assembly, agreed=agreed
        )
        self.config, self._trains = self._run.config, False
        return self

    def evaluate(
        self,
        episodes: int | None = None,
        *,
        deterministic: bool | None = None,
        policy: Part | None = None,
        look_ahead: bool = True,
    ) -> Scores:
        """Evaluate the policy, or another in the same episodes; return `eval/…` metrics of raw returns as a dict.

        Args:
            episodes: how many; None: as configured.
            deterministic: most likely actions instead of samples; None: as configured.
            policy: a policy plugin that acts instead, such as `"random"`, or the class of a heuristic.
            look_ahead: with the run's planner, if it has one; False: the network acts alone.

        Raises:
            ConfigError: there is no such policy, or it does not support the spaces of the environment.
        """
        check_options(episodes=episodes, deterministic=deterministic, look_ahead=look_ahead)
        run = self.run
        options: dict[str, Any] = {"policy": None if policy is None else acting_policy(policy, run)}
        options |= {"deterministic": deterministic, "look_ahead": look_ahead, "episodes": episodes}
        return Scores(run.evaluate(FINAL_EVALUATION, **options))

    def rollout(
        self,
        episodes: int = 8,
        *,
        deterministic: bool | None = None,
        record: Path | str | None = None,
        wrapped_rewards: bool = False,
        workers: int | None = None,
        runner: Part | None = None,
        seed: int | None = None,
        look_ahead: bool = True,
    ) -> Played:
        """Play episodes with the current policy and return their trajectories as a list.

        Args:
            episodes: how many.
            deterministic: most likely actions instead of samples; None: as evaluations are configured.
            record: a new folder to record the episodes in, with the rewards before all wrappers.
            wrapped_rewards: record those after the wrappers, too.
            workers: number of workers; no effect on the result. None: this process, or as many as `runner` chooses.
            runner: starts the workers, such as `"ray"`; None: the local runner, if there are several.
            seed: decides the episodes; None: a fresh one.
            look_ahead: as of `evaluate`.

        Raises:
            ConfigError: maze-recordings is not installed, or a part of the run does not fit.
            KeyboardInterrupt: it was interrupted; what was recorded stays.
        """
        check_options(episodes=episodes, deterministic=deterministic, workers=workers, look_ahead=look_ahead)
        play = extension(RECORDINGS, "rollout", "playing whole episodes", "maze-recordings")
        played = play(
            self.run,
            episodes,
            deterministic=deterministic,
            record=None if record is None else Path(record),
            wrapped_rewards=wrapped_rewards,
            workers=workers,
            runner=None if runner is None else part_config("runner", Parts().plugin("runner", runner)),
            seed=draw_seed() if seed is None else seed,
            look_ahead=look_ahead,
        )
        return Played(played)

    def make_env(self) -> Any:
        """Return an environment of this run, wrapped as in training; `compute_action` takes its observations.

        Its wrappers remember what those of the evaluations do. Where several agents act it is a `MultiAgentEnv`. It
        remembers its episode where a planner needs that.
        """
        builder, planners = self.run.env_builder("acting"), self.run.planners
        env: Any = builder.agents_env(0) if self._several_agents else builder(0)
        if memory := self.run.wrapper_memory():
            recall(lasting_parts(env) if self._several_agents else lasting_layers(env), memory[0])
        return env if planners is None else planners.watched(env)

    def compute_action(self, observation: Any, *, deterministic: bool = True, check: bool = True) -> Any:
        """Return the action for one observation, both in the environment's own spaces; `check` as of `agent`.

        Raises:
            ConfigError: the policy remembers, several agents act in the environment, a planner looks ahead, or the
                observation is refused.
        """
        check_options(deterministic=deterministic, check=check)
        self._check_single()
        self._beside(None, "agent")
        return compute_action(self.policy, observation, deterministic=deterministic, check=check)

    def compute_actions(
        self, observations: Iterable[Any], *, deterministic: bool = True, check: bool = True
    ) -> list[Any]:
        """Return the action for each of many observations, computed at once; otherwise as `compute_action`.

        `observations`: a list of them, or an array with the observations along its first axis.
        """
        check_options(deterministic=deterministic, check=check)
        self._check_single()
        self._beside(None, "agent")
        return compute_actions(self.policy, observations, deterministic=deterministic, check=check)

    def agent(
        self, *, deterministic: bool = True, check: bool = True, env: Any = None, look_ahead: bool = True
    ) -> SingleAgent:
        """Return the policy as an agent with `reset()` and `act(observation)`; it may have memory.

        With `check` it refuses observations that training refuses: another structure, shape or dtype than the
        observation space has, NaN, infinity, masks without a choice. Without, it acts without looking.

        A run with a planner needs `env`, the environment that is played, of which it makes copies to look ahead:
        `env = context.make_env()`. With `look_ahead=False` the network acts alone.

        Raises:
            ConfigError: several agents act in the environment, or the planner has no environment that it can copy.
        """
        check_options(deterministic=deterministic, check=check, look_ahead=look_ahead)
        self._check_single()
        planning = self._beside(env, "agent") if look_ahead else None
        return SingleAgent(self.policy, deterministic=deterministic, check=check, planning=planning)

    def agents(
        self, *, deterministic: bool = True, check: bool = True, env: Any = None, look_ahead: bool = True
    ) -> SeveralAgents:
        """Return the policy for an environment with several agents, with `reset()` and `act(name, observation)`.

        `check`, `env` and `look_ahead` as of `agent`. With `env` the observations are those that it returns, else those
        of the environment that it adapts, such as PettingZoo's.

        Raises:
            ConfigError: one agent acts in the environment, or the planner has no environment that it can copy.
        """
        check_options(deterministic=deterministic, check=check, look_ahead=look_ahead)
        builder = self.run.env_builder("acting")
        planning = self._beside(env, "agents") if look_ahead and builder.several_agents else None
        agents: SeveralAgents = extension(ACTORS, "agents", "acting for several agents", "maze-models", "env")(
            self.policy,
            builder,
            deterministic=deterministic,
            check=check,
            planning=planning,
            env=env,
        )
        return agents

    @cached_property
    def _several_agents(self) -> bool:
        return self.run.env_builder("acting").several_agents

    def _check_single(self) -> None:
        if self._several_agents:
            raise ConfigError(
                "several agents act in this environment, so an observation alone does not say whose it is",
                "env",
                "Next: agents = context.agents(), agents.act(name, observation)",
            )

    def _beside(self, env: Any, call: str) -> PlanningBeside | None:
        """Return what looks ahead in an environment that the method `call` plays; None where the run has no planner."""
        return None if self.run.planners is None else self.run.planners.beside(env, call)

    def close(self) -> None:
        """Release environments and workers; safe to call twice."""
        if self._run is not None:
            self._run.close()

    def __repr__(self) -> str:
        """Return algorithm, environment, and of a run that has been built its directory and epoch."""
        what = f"{self.config.algorithm.name} on {self.config.env_title}"
        run = self._run
        return f"<RunContext {what}>" if run is None else f"<RunContext {what}, {run.run_dir}, epoch {run.epoch}>"

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows: the curve, scores, and what to call next; None: `repr` does."""
        card: str | None = in_notebook("card", self.config, self._run, self._trains)
        return card

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _branch() -> Any:
    """Return what opens the fork of a saved run."""
    return extension("maze.forks", "branch", "a fork", "maze-fork")
