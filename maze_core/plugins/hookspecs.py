"""The hooks: every point at which a plugin may act in a run.

Each docstring is the hook's reference page. Hooks cost microseconds, so none is called per environment step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import gymnasium
    from torch import nn

    # The types that hooks are called with. Only here the core names types of the folders above plugins; modules below
    # the run take `Run` from here, too.
    from maze_core.collect.agents.agent import Agent as Agent
    from maze_core.collect.agents.looking_ahead import Planner as Planner
    from maze_core.data.batch import Batch as Batch
    from maze_core.data.batch import Loss as Loss
    from maze_core.data.rollout import Rollout as Rollout
    from maze_core.envs.vector import VectorEnv as VectorEnv
    from maze_core.models.policy import Policy
    from maze_core.plugins.config.base import PluginConfig
    from maze_core.run.report import EpochReport as EpochReport
    from maze_core.run.report import RunSummary as RunSummary
    from maze_core.run.run import Run as Run

hookspec = pluggy.HookspecMarker("maze")
hookimpl = pluggy.HookimplMarker("maze")
"""Marks a method of a plugin as the implementation of the hook of the same name."""


class HookSpecs:
    """The hook specifications of Maze.

    Not every algorithm calls `compute_loss`, `wrap_agent`, `build_planner`, `change_rollout`, `change_transitions` and
    `on_evaluation`. A plugin with some of them, none of which the run's algorithm calls, is refused before the first
    step; `maze plugins info` shows who calls what.
    """

    @hookspec(firstresult=True)
    def make_env(self, config: PluginConfig, seed: int, index: int, purpose: str) -> gymnasium.Env[Any, Any] | None:
        """Build one environment.

        When: before the first step, once for every environment of the run (training and evaluation), in the
        process that steps it. Call rule: the first env source that returns an environment wins; env wrappers
        are `wrapper=True` implementations that receive it and return the wrapped one, in configured order, the
        first innermost. `seed` is for choices made at construction; episodes are seeded through `reset`.
        `purpose` is `training` for environments that a policy learns in, and another word elsewhere, such as `trial`
        for one that is tried out before the run begins; the spaces must not depend on it. On error: the run stops
        and the plugin is named.

            class MySource(Plugin):
                @hookimpl
                def make_env(self, config, seed, index):
                    return MyEnv(config.size)
        """

    @hookspec(firstresult=True)
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> Any:
        """Build one environment with several agents, each of which has a row of its own; instead of `make_env`.

        When: as `make_env`. Call rule: the first env source that returns an environment wins. Wrappers with `make_env`
        wrap the part of each agent.
        On error: the run stops and the plugin is named.

            class MyGames(Plugin):
                @hookimpl
                def make_agents_env(self, config, seed, index):
                    return MyGame(config.players)  # a maze_actors.MultiAgentEnv
        """

    @hookspec(firstresult=True)
    def make_vector_env(
        self, config: PluginConfig, num_envs: int, seed: int, purpose: str
    ) -> gymnasium.vector.VectorEnv[Any, Any, Any] | None:
        """Build a natively vectorised environment; optional. `purpose` is as for `make_env`.

        When: before `make_env`, once for training and once for evaluation. Call rule: first result; if no
        plugin returns one, Maze steps `num_envs` results of `make_env` itself. All three autoreset modes of gymnasium
        are supported. A wrapper that implements this hook alone is refused where no source has such an environment. On
        error: the run stops and the plugin is named.
        """

    @hookspec(firstresult=True)
    def build_policy(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        config: PluginConfig,
    ) -> nn.Module | None:
        """Build the policy network and its critic.

        When: once per run, before the first step, and again when a saved run is opened. Call rule: first result;
        a `wrapper=True` implementation may replace or change what the model plugin built. The result follows the
        interface of `maze_core.models.policy.Policy`. On error: the run stops and the plugin is named.
        """

    @hookspec(firstresult=True)
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss | None:
        """Compute the objective of one batch.

        When: once per minibatch, in the learner; never with algorithms that have no loss, such as cma_es and those of
        RLlib, and for the critic alone with trpo. Call rule: the active algorithm answers; a `wrapper=True`
        implementation receives its `Loss` and may add a term. On error: the run stops and the plugin is named.

            class Auxiliary(Plugin):
                @hookimpl(wrapper=True)
                def compute_loss(self, policy, batch):
                    loss = yield
                    return loss.plus("l2", self.config.coef * sum(p.square().sum() for p in policy.parameters()))
        """

    @hookspec
    def build_modules(self, run: Run) -> Mapping[str, Any] | None:
        """Build networks that a plugin trains beside the policy, by name; optional.

        When: once per run, after the policy and before the optimizer. Call rule: all results. Checkpoints contain
        the networks, and their parameters learn from the gradients of `compute_loss` with the learning rate
        `config.lr` of the plugin, else the algorithm's and its schedule, in the algorithm's steps and below its limit
        of gradients. A `SideLearner` (`maze_models.side_learner`) in the place of a network learns with an
        optimizer, a limit and batches of its own. They are no part of the policy. On error: the run stops and the
        plugin is named.

            class Curiosity(Plugin):
                @hookimpl
                def build_modules(self, run):
                    self.predictor = torch.nn.Linear(8, 8)
                    return {"predictor": self.predictor}
        """

    @hookspec
    def wrap_agent(self, run: Run, agent: Agent, env: VectorEnv) -> Agent | None:
        """Return an agent that acts instead of the run's while it collects rollouts; optional.

        When: once per run, when PPO, A2C and other algorithms with a `RolloutCollector` build it, before the first
        step. Call rule: all, in the order of the plugins; each receives the result of the one before. On error: the run
        stops and the plugin is named.

        The result is an `Agent` (`maze_core.collect.agents.agent`): `act` chooses the actions. One that wraps another
        passes `begin`, `wait`, `refresh` and `expect` on to it, and its `state()`, which checkpoints contain, holds
        what decides the next actions of both.

            class Careful(Plugin):
                @hookimpl
                def wrap_agent(self, run, agent, env):
                    return CarefulAgent(agent)
        """

    @hookspec
    def build_planner(self, policy: Policy, purpose: str) -> Planner | None:
        """Return a planner, which chooses actions by trying them out in copies of the environment; optional.

        When: before the first step of whatever acts with the run's policy, in the process that acts: `purpose` is
        `training` (algorithms with a `RolloutCollector` or a `ReplayCollector`), `evaluation`, `rollout` (also of
        `maze view`), or `acting` (`RunContext.agent`). Outside of training it may be another process or a later one, so
        the planner depends on the plugin's config and the policy alone. Call rule: of all plugins one may return a
        planner. None: the policy acts alone. On error: the run stops and the plugin is named.

        The result is a `Planner` of the distribution maze-planning (`maze_planning.planner`): `choose` chooses the
        actions. Each environment is followed in a twin, which is copied by `copy.deepcopy` or by replay
        (`maze_planning.simulator`). Where maze-planning is not installed, runs with such a plugin are refused.

            class Careful(Plugin):
                @hookimpl
                def build_planner(self, policy):
                    return CarefulPlanner(policy, self.config.depth)
        """

    @hookspec
    def change_rollout(self, run: Run, rollout: Rollout) -> None:
        """Change a rollout in place before anything is computed from it: its rewards, or values added to `extra`.

        When: after each rollout of PPO, A2C and other algorithms with a `RolloutCollector`, of MAML, and of each actor
        of IMPALA and APPO, which refuse what is added to `extra`. Call rule: all, in the order of the plugins. The
        statistics of episodes keep the rewards of the environment. On error: the run stops and the plugin is named.

            class Bonus(Plugin):
                @hookimpl
                def change_rollout(self, run, rollout):
                    rollout.rewards += 0.01 * rollout.valid
        """

    @hookspec
    def change_transitions(self, run: Run, batch: Batch) -> None:
        """Change a batch of replayed transitions in place: its `extra["reward"]`, or values added to `extra`.

        When: after each sample from a replay buffer, as of DQN, SAC and TD3; not with recorded data. Call rule: all, in
        the order of the plugins. The replay buffer keeps what the environment returned. On error: the run stops and the
        plugin is named.
        """

    @hookspec
    def on_run_start(self, run: Run) -> None:
        """Observe the start: the run directory exists, policy and environments are built, nothing has been stepped.

        When: once per process that trains, also after a resume. An error is reported once and the run continues; a
        `ConfigError`, for a setting of the plugin that cannot work, ends it before the first step.
        """

    @hookspec
    def on_metrics(self, run: Run, metrics: Mapping[str, float]) -> Mapping[str, float] | None:
        """Return further metrics of an epoch, by full name such as `train/weight_norm`; optional.

        When: after each epoch's evaluation, before the policy is ranked by its score and before `on_epoch_end`, so that
        every logger has them, whatever the order of the plugins. Call rule: all, in the order of the plugins; `metrics`
        is what the epoch has so far. What is put into `run.histograms` and `run.figures` belongs to this epoch, too.
        An error is reported once and the run continues; a `RunError` ends it.

            class Norm(Plugin):
                @hookimpl
                def on_metrics(self, run):
                    return {"train/weight_norm": sum(p.norm() for p in run.policy.parameters())}
        """

    @hookspec
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Observe an epoch: its number, counters and all training and evaluation metrics.

        When: after each epoch's evaluation, before the checkpoint `last` is written. `run.stop(reason)` ends the
        run after this epoch. The report is complete: what is added to it, or recorded here, is an error; `on_metrics`
        adds metrics. An error is reported once and the run continues; a `RunError` ends it.
        """

    @hookspec
    def on_evaluation(self, run: Run, epoch: EpochReport) -> None:
        """Observe an evaluation within an epoch; its report has the number of the unfinished epoch.

        When: when the algorithm asks for one (`run.evaluate_within_epoch`, as bc does every so many updates), in
        addition to those that `on_epoch_end` reports; never with most algorithms. The metrics are those of the
        evaluation alone. An error is reported once and the run continues; a `RunError` ends it.
        """

    @hookspec
    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Observe a complete checkpoint on disk; `path` is its folder. An error is reported once."""

    @hookspec
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Observe the end, also after a failure or an interruption.

        The result is final: any error, a `RunError` or `sys.exit` too, is reported once and changes neither it nor the
        exit code.
        """
