"""The hooks of one run: typed methods over a pluggy manager with only the plugins of this run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, PluginError, RunError, say_where
from maze_core.base.metrics import ClosedDict
from maze_core.base.tolerant_output import to_stderr
from maze_core.plugins import discovery
from maze_core.plugins.hook_results import add, ignored, problem_of, refuse_copy, refuse_misused_wrapper
from maze_core.plugins.members import HOOKS, Member, Registry, member, put_below, wrapper_members

if TYPE_CHECKING:
    from pathlib import Path

    import gymnasium
    import pluggy
    from torch import nn

    from maze_core.plugins.config.base import PluginConfig
    from maze_core.plugins.config.run import RunConfig
    from maze_core.plugins.hookspecs import (
        Agent,
        Batch,
        EpochReport,
        Loss,
        Planner,
        Rollout,
        Run,
        RunSummary,
        VectorEnv,
    )


class Hooks:
    """The hooks of one run.

    `members` are registered in order. For hooks that use the first result, later members are called first. Earlier
    wrappers are inside later ones. Observers are called in order. After construction nothing can be registered.
    Raises PluginError for a hook implementation that does not match the specifications.
    """

    def __init__(self, members: Iterable[Member], warn: Callable[[str], None] | None = None) -> None:
        self.members = tuple(members)
        self._warn = warn or to_stderr
        self._failed: set[int] = set()
        self._ignored: set[tuple[int, str]] = set()
        self.announced: set[str] = set()
        """The hooks that the data of this run pass, as its collectors said when they were built."""
        self._manager = Registry(self.members)
        self._observers = {name: list(self._in_order(name)) for name in HOOKS if name.startswith("on_")}
        self._changers = {name: list(self._in_order(name)) for name in HOOKS if name.startswith("change_")}
        self.compute_loss = self._loss_function()

    compute_loss: Callable[[nn.Module, Batch], Loss]
    """Returns the loss of one batch: the algorithm's, as changed by wrappers. Called once per minibatch."""

    @classmethod
    def for_run(cls, config: RunConfig, warn: Callable[[str], None] | None = None) -> Hooks:
        """Return the hooks of a run: model, env source, wrappers in order, algorithm, callbacks in order."""
        parts: list[tuple[str, PluginConfig]] = [("model", config.model), ("env", config.env)]
        members = [member(kind, part) for kind, part in parts] + wrapper_members(config.wrappers)
        algorithm = member("algorithm", config.algorithm)
        callbacks = [member("callback", part, f"callbacks.{key}") for key, part in config.callbacks.items()]
        return cls([*members, algorithm, *callbacks], warn)

    @classmethod
    def for_envs(cls, env: PluginConfig, wrappers: Iterable[PluginConfig] = (), innermost: Any = None) -> Hooks:
        """Return the hooks that build environments in a worker process: env source and wrappers, without torch.

        `innermost`: a plugin object of the core's that wraps environments below all wrappers, if there are any.
        """
        members = [member("env", env), *wrapper_members(wrappers)]
        if innermost is not None and len(members) > 1:
            members.insert(1, Member("core", "innermost", innermost))
        return cls(members)

    def plugin(self, kind: str) -> Any:
        """Return the first plugin object of a kind, such as the run's algorithm."""
        return next(each.plugin for each in self.members if each.kind == kind)

    @property
    def stateful(self) -> dict[str, Any]:
        """The callbacks with a state that checkpoints save, `state()` and `load_state(state)`, by their keys."""
        both = ("state", "load_state")
        callbacks = [each for each in self.members if each.kind == "callback"]
        return {
            each.place.partition(".")[2]: each.plugin
            for each in callbacks
            if all(callable(getattr(each.plugin, name, None)) for name in both)
        }

    def implementers(self, *hooks: str) -> list[Member]:
        """Return the plugins that implement one of these hooks, in order."""
        there = {id(each.plugin) for hook in hooks for each, _ in self._in_order(hook)}
        return [each for each in self.members if id(each.plugin) in there]

    def announce(self, *hooks: str) -> None:
        """Say, while the algorithm is set up, which hooks its data will pass, such as `change_rollout`.

        The core's collectors do it. A plugin whose hooks of this kind are all missing here is refused.
        """
        if wrong := [hook for hook in hooks if hook not in HOOKS]:
            raise PluginError(f"there is no hook {wrong[0]!r} to announce; hooks: {', '.join(HOOKS)}")
        self.announced.update(hooks)

    def make_env(
        self, config: PluginConfig, seed: int, index: int, purpose: str = "training"
    ) -> gymnasium.Env[Any, Any]:
        """Build one wrapped environment. A plugin's exception gets a note that names the plugin."""
        import gymnasium

        from maze_core.plugins.other_interfaces import check_spaces, foreign

        env = self._build("make_env", config=config, seed=seed, index=index, purpose=purpose)
        if (other := foreign(env.unwrapped if isinstance(env, gymnasium.Env) else env)) is not None:
            raise other
        if not isinstance(env, gymnasium.Env):
            raise self._wrong_result("make_env", env, "gymnasium.Env", "env")
        check_spaces(env)
        return env

    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> Any:
        """Build one environment with several agents, or return None if no plugin offers one."""
        return self._build("make_agents_env", config=config, seed=seed, index=index)

    def make_vector_env(
        self, config: PluginConfig, num_envs: int, seed: int, purpose: str = "training"
    ) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """Build a natively vectorised environment, or return None if no plugin offers one."""
        import gymnasium

        env = self._build("make_vector_env", config=config, num_envs=num_envs, seed=seed, purpose=purpose)
        if env is not None and not isinstance(env, gymnasium.vector.VectorEnv):
            raise self._wrong_result("make_vector_env", env, "gymnasium.vector.VectorEnv", "env")
        return env

    def build_policy(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: PluginConfig,
    ) -> nn.Module:
        """Build the policy network and critic."""
        from torch import nn

        policy = self._build(
            "build_policy", observation_space=observation_space, action_space=action_space, config=config
        )
        if not isinstance(policy, nn.Module):
            raise self._wrong_result("build_policy", policy, "torch.nn.Module", "model")
        refuse_unshaped(policy, "the policy")
        return policy

    def build_modules(self, run: Run) -> tuple[dict[str, tuple[nn.Module, float | None]], dict[str, Any]]:
        """Return the networks that learn from the algorithm's loss, with learning rates, and those with their own.

        Their names begin with the plugin's: `callbacks.curiosity` has `curiosity.predictor`.
        """
        from torch import nn

        found: dict[str, tuple[nn.Module, float | None]] = {}
        beside: dict[str, Any] = {}
        for each, implementation in self._in_order("build_modules"):
            with self._named("build_modules"):
                modules = _call(implementation, {"run": run}) or {}
            if not (isinstance(modules, dict) and all(map(_learns, modules.values()))):
                raise self._wrong_result("build_modules", modules, "dict of torch.nn.Module or SideLearner", each.kind)
            for name, module in modules.items():
                refuse_unshaped(module if isinstance(module, nn.Module) else module.network, f"{each.title}: {name}")
            lr = getattr(getattr(each.plugin, "config", None), "lr", None)
            for name, module in modules.items():
                if isinstance(module, nn.Module):
                    found[f"{each.name}.{name}"] = module, lr
                else:
                    beside[f"{each.name}.{name}"] = module
        return found, beside

    def wrap_agent(self, run: Run, agent: Agent, env: VectorEnv) -> Agent:
        """Return the agent that collects rollouts, as plugins wrapped it."""
        self.announce("wrap_agent")
        for _, implementation in self._in_order("wrap_agent"):
            with self._named("wrap_agent"):
                agent = _call(implementation, {"run": run, "agent": agent, "env": env}) or agent
        return agent

    @property
    def wraps_agent(self) -> bool:
        """True where a plugin changes who acts."""
        return any(True for _ in self._in_order("wrap_agent"))

    def build_planner(self, policy: nn.Module, purpose: str) -> Planner | None:
        """Return the planner that acts with a policy; None: the policy acts alone.

        Raises:
            ConfigError: two plugins look ahead, or one looks ahead and another changes who acts.
        """
        if purpose == "training":
            self.announce("build_planner")
        found: list[tuple[Member, Planner]] = []
        for each, implementation in self._in_order("build_planner"):
            with self._named("build_planner"):
                planner = _call(implementation, {"policy": policy, "purpose": purpose})
            if planner is not None and not callable(getattr(planner, "choose", None)):
                raise self._wrong_result("build_planner", planner, "Planner", each.kind)
            if planner is not None:
                found.append((each, planner))
        wrapping = [each for each, _ in self._in_order("wrap_agent")] if purpose == "training" else []
        others = [each for each, _ in found[1:]] or (wrapping if found else [])
        if others:
            first, second = found[0][0], others[0]
            raise ConfigError(
                f"{first.name} and {second.name} both choose actions",
                second.place or second.kind,
                "Leave one of them out.",
            )
        return found[0][1] if found else None

    @property
    def changes_rollouts(self) -> bool:
        """True where a plugin changes rollouts."""
        return bool(self._changers["change_rollout"])

    def change_rollout(self, run: Run, rollout: Rollout) -> None:
        """Let plugins change a rollout."""
        self._change("change_rollout", rollout, {"run": run, "rollout": rollout})

    def change_transitions(self, run: Run, batch: Batch) -> None:
        """Let plugins change a batch of replayed transitions."""
        self._change("change_transitions", batch, {"run": run, "batch": batch})

    def _change(self, hook: str, given: object, arguments: dict[str, Any]) -> None:
        for each, implementation in self._changers[hook]:
            with self._named(hook):
                refuse_copy(each, hook, _call(implementation, arguments), given)

    def on_run_start(self, run: Run) -> None:
        """Tell the observers that training begins. A ConfigError of one of them ends the run."""
        self._notify("on_run_start", run=run)

    def on_metrics(self, run: Run, metrics: dict[str, float]) -> dict[str, float]:
        """Return the metrics of an epoch with those that observers add."""
        whole = ClosedDict(metrics)
        self._notify("on_metrics", lambda found: add(whole, found), run=run, metrics=whole)
        return dict(whole)

    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Tell the observers about a finished epoch."""
        self._notify("on_epoch_end", run=run, epoch=epoch)

    def on_evaluation(self, run: Run, epoch: EpochReport) -> None:
        """Tell the observers of an evaluation within an epoch."""
        self._notify("on_evaluation", run=run, epoch=epoch)

    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Tell the observers about a whole checkpoint."""
        self._notify("on_checkpoint", run=run, path=path)

    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Tell the observers that the run is over, including those that failed before, so that they can clean up."""
        self._notify("on_run_end", run=run, summary=summary)

    # Implementation

    def _in_order(self, name: str) -> Iterator[tuple[Member, pluggy.HookImpl]]:
        position = {id(each.plugin): index for index, each in enumerate(self.members)}
        implementations = getattr(self._manager.hook, name).get_hookimpls()
        for implementation in sorted(implementations, key=lambda i: (i.trylast - i.tryfirst, position[id(i.plugin)])):
            yield self.members[position[id(implementation.plugin)]], implementation

    def _build(self, hook: str, **arguments: Any) -> Any:
        with self._named(hook):
            return getattr(self._manager.hook, hook)(**arguments)

    def _loss_function(self) -> Callable[[nn.Module, Batch], Loss]:
        if not self._manager.hook.compute_loss.get_hookimpls():
            return self._no_loss
        hook = self._manager.hook.compute_loss

        def compute_loss(policy: nn.Module, batch: Batch) -> Loss:
            try:
                loss: Loss = hook(policy=policy, batch=batch)
            except Exception as error:
                refuse_misused_wrapper(error, "compute_loss")
                self._name_in(error, "compute_loss")
                raise
            if problem := problem_of(loss):
                raise self._wrong_result("compute_loss", loss, problem, "algorithm")
            return loss

        return compute_loss

    def _no_loss(self, policy: nn.Module, batch: Batch) -> Loss:
        raise self._wrong_result("compute_loss", None, "Loss", "algorithm")

    @contextmanager
    def _named(self, hook: str) -> Iterator[None]:
        try:
            yield
        except SystemExit as error:
            failure = RunError(f"sys.exit was called{discovery.place_in(error)}: {discovery.describe(error)}")
            self._name_in(failure.with_traceback(error.__traceback__), hook)
            raise failure from error
        except Exception as error:
            refuse_misused_wrapper(error, hook)
            self._name_in(error, hook)
            raise

    def _name_in(self, error: Exception, hook: str) -> None:
        """Add a note with the plugin that raised the error: the one whose method is deepest in the traceback."""
        owners = {getattr(i.function, "__code__", None): i.plugin for i in self._implementations(hook)}
        culprit = None
        step = error.__traceback__
        while step is not None:
            plugin = owners.get(step.tb_frame.f_code)
            if plugin is not None:
                # Two wrappers of one class share their code; the frame tells them apart.
                culprit = step.tb_frame.f_locals.get("self", plugin)
            step = step.tb_next
        for each in self.members:
            if each.plugin is culprit:
                put_below(error, each.place, getattr(each.plugin, "config", None))
                say_where(error, f"in hook {hook} of {each.title}")
                return
        say_where(error, f"in hook {hook}")

    def _implementations(self, hook: str) -> list[pluggy.HookImpl]:
        found: list[pluggy.HookImpl] = getattr(self._manager.hook, hook).get_hookimpls()
        return found

    def _wrong_result(self, hook: str, result: object, wanted: str, kind: str) -> PluginError:
        """Return the error for a result of the wrong type; it names every plugin involved."""
        titles = [each.title for each, _ in self._in_order(hook)]
        if not titles:
            own = [each.title for each in self.members if each.kind == kind]
            who = f": {', '.join(own)} should" if own else ""
            return PluginError(f"no plugin implements hook {hook}{who}")
        got = "None" if result is None else type(result).__name__
        return PluginError(f"hook {hook} returned {got} instead of {wanted}; implemented by {', '.join(titles)}")

    def _notify(self, hook: str, take: Callable[[Any], None] | None = None, /, **arguments: Any) -> None:
        for each, implementation in self._observers[hook]:
            if id(each.plugin) in self._failed:
                if hook == "on_run_end":
                    with suppress(Exception, SystemExit):  # reported when it first failed
                        _call(implementation, arguments)
                continue
            try:
                result = _call(implementation, arguments)
                if take is not None:
                    take(result)
                elif result is not None and (id(each.plugin), hook) not in self._ignored:
                    self._ignored.add((id(each.plugin), hook))
                    self._warn(f"note: {ignored(each, hook, result)}")
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a failing observer must not end the run
                if hook != "on_run_end" and (isinstance(error, RunError) or not isinstance(error, Exception)):
                    raise
                self._failed.add(id(each.plugin))
                if hook == "on_run_start" and isinstance(error, ConfigError):  # nothing is lost: nothing has been done
                    put_below(error, each.place, getattr(each.plugin, "config", None))
                    raise
                problem = discovery.describe(error) + discovery.place_in(error)
                self._warn(f"warning: hook {hook} of {each.title} failed and is no longer called: {problem}")


def refuse_unshaped(network: nn.Module, what: str) -> None:
    """Raise PluginError for a network with a layer that gets its shape from the first rows it sees."""
    from torch.nn.parameter import is_lazy

    tensors = [*network.named_parameters(), *network.named_buffers()]
    if lazy := next((name for name, tensor in tensors if is_lazy(tensor)), None):
        raise PluginError(
            f"{what}: {lazy} has no shape yet\nNext: layers with sizes instead of lazy ones, such as nn.Linear for "
            "nn.LazyLinear; or call the network once before it is returned."
        )


def _learns(module: object) -> bool:
    """Return True for a network, or a `SideLearner`, which this module may not import."""
    from torch import nn

    return isinstance(module, nn.Module) or isinstance(getattr(module, "network", None), nn.Module)


def _call(implementation: pluggy.HookImpl, arguments: dict[str, Any]) -> Any:
    return implementation.function(*[arguments[name] for name in implementation.argnames])
