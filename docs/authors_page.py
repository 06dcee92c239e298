"""The sections of the reference for plugin authors: classes, functions, types of parameters; hooks by kind."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from described import code, line, of_class, returns

from maze_core.data.batch import Batch
from maze_core.plugins.config.flags import flags
from maze_core.plugins.discovery import KINDS
from maze_core.plugins.hookspecs import HookSpecs
from maze_core.plugins.kinds import WITHOUT_HOOKS, WRAPPABLE, misplaced


def authors() -> dict[str, str]:
    """The classes, functions and types that plugins meet."""
    from maze_actors.agents import MultiAgentEnv, Round
    from maze_actors.turns import Turn, TurnEnv
    from maze_curricula import Space, Teacher
    from maze_devkit import Case, Trial
    from maze_models.beta import BetaHead
    from maze_models.side_learner import SideLearner
    from maze_offpolicy.collect.action_noise import ActionNoise
    from maze_offpolicy.collect.epsilon_greedy import EpsilonGreedy
    from maze_offpolicy.collect.replay_collector import ReplayCollector
    from maze_offpolicy.collect.replay_memory import ReplayMemory, TargetMemory
    from maze_offpolicy.learn.targets import Target
    from maze_offpolicy.models.critics import StateActionCritics
    from maze_offpolicy.models.joint_actions import JointActions
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.by_sequence import BySequence
    from maze_offpolicy.replay.joint import Joint
    from maze_offpolicy.replay.selectors import ByPriority, Drawn, Selector, Uniform
    from maze_onpolicy.collect.remote import RemoteSampler, RemoteStepper
    from maze_onpolicy.collect.rollout_collector import RolloutCollector
    from maze_onpolicy.collect.sampler import Sampler
    from maze_onpolicy.collect.task_rollouts import TaskJob, TaskRollouts
    from maze_onpolicy.data.reward_scale import RewardScale
    from maze_onpolicy.learn.parameters import PolicyParameters
    from maze_onpolicy.tasks import Tasks
    from maze_planning.planner import Decision, Planner
    from maze_planning.simulator import Outcome, Simulator, Simulators
    from maze_sweep.searchers.base import Search, Searcher, Wait

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.collect.agents.agent import Agent, Choice, Exploration
    from maze_core.collect.agents.network import NetworkAgent, SharedNoise
    from maze_core.collect.collector import Collector
    from maze_core.collect.stepper import Sink, Stepper
    from maze_core.data.batch import Loss, OwnStep
    from maze_core.data.rollout import Rollout
    from maze_core.data.sequences import Sequences
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.vector import Episode, StepResult
    from maze_core.learn.algorithm import Algorithm
    from maze_core.models.distributions import Bernoulli, Categorical, Family, FamilyHead, MultiCategorical
    from maze_core.models.distributions.base import Distribution, TreeDistribution
    from maze_core.models.distributions.chosen import HeadOptions
    from maze_core.models.distributions.continuous import BoxScale
    from maze_core.models.families import (
        BernoulliHead,
        CategoricalHead,
        GaussianConfig,
        GaussianHead,
        LogitsConfig,
        MultiCategoricalHead,
    )
    from maze_core.models.inputs import FlatInput
    from maze_core.models.memory import Memory
    from maze_core.models.policy import Policy
    from maze_core.run.episodes.statistics import EpochStatistics
    from maze_core.run.progress import RunProgress
    from maze_core.run.report import EpochReport, RunSummary
    from maze_core.run.run import Run

    sections: dict[str, str] = {}
    for record in (
        *(Algorithm, Run, RunProgress, EpochStatistics, Rollout, Batch, Loss, OwnStep, Sequences, PolicyParameters),
        *(Memory, EpochReport, RunSummary),
        *(SideLearner, Policy, TreeDistribution, Distribution, Family, FamilyHead, HeadOptions),
        *(Categorical, MultiCategorical, Bernoulli),
        *(CategoricalHead, MultiCategoricalHead, BernoulliHead, GaussianHead, BetaHead, BoxScale),
        *(LogitsConfig, GaussianConfig),
        *(Collector, RolloutCollector, ReplayCollector, Sampler, RemoteSampler, RemoteStepper),
        *(ReplayMemory, TargetMemory, RewardScale, Tasks, TaskJob, TaskRollouts),
        *(ReplayBuffer, Selector, Uniform, ByPriority, BySequence, Joint, Drawn),
        *(Exploration, EpsilonGreedy, ActionNoise, Target, JointActions, StateActionCritics, FlatInput),
        *(Agent, NetworkAgent, SharedNoise, Choice, Stepper, Sink, StepResult, Episode, EpisodeSeeds),
        *(EnvBuilder, SerialVectorEnv, MultiAgentEnv, Round, TurnEnv, Turn, Searcher, Search, Wait),
        *(Teacher, Space, Trial, Case),
        *(Planner, Decision, Simulator, Outcome, Simulators),
    ):
        sections[f"Class `{record.__name__}`"] = of_class(record)
    sections["Functions"] = _functions()
    sections["Types of algorithm parameters"] = _parameter_types()
    return sections


def _functions() -> str:
    """The functions that plugins call besides the members of classes."""
    from maze_offpolicy.collect.sizes import steps_of_each
    from maze_offpolicy.learn.deterministic import check_deterministic, most_likely
    from maze_offpolicy.learn.quantile_loss import quantile_huber
    from maze_offpolicy.models.critics import build_critics
    from maze_offpolicy.models.joint_actions import check_log_probs, check_reparametrised
    from maze_onpolicy.learn.advantages import action_log_probs, actor_critic_loss, advantage_rows
    from maze_onpolicy.learn.divergence import check_divergence
    from maze_onpolicy.learn.parameters import policy_parameters, with_parameters
    from maze_onpolicy.learn.recurrent import twice_differentiable

    from maze_core.base.seeding import generator, integer_seed, sequence, torch_generator
    from maze_core.data.batch import mean_of_rows
    from maze_core.learn.algorithm import learning_parameters
    from maze_core.models.distributions.chosen import make_head
    from maze_core.models.inputs import critic_spaces, input_spaces
    from maze_core.models.memory import distribution_of, remembers, value_of

    rows = []
    for function in (
        *(build_critics, input_spaces, critic_spaces, steps_of_each, check_deterministic),
        *(check_reparametrised, check_log_probs, check_divergence),
        *(most_likely, advantage_rows, actor_critic_loss, mean_of_rows, action_log_probs),
        *(
            learning_parameters,
            policy_parameters,
            with_parameters,
            make_head,
            distribution_of,
            remembers,
            value_of,
            twice_differentiable,
        ),
        *(quantile_huber, sequence, generator, torch_generator, integer_seed),
    ):
        node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise TypeError(f"{function} is no function")
        shown = f"{node.name}({ast.unparse(node.args)}){returns(node)}"
        rows.append(f"| `{function.__module__}` | {code(shown)} | {line(ast.get_docstring(node) or '')} |")
    return "\n".join(["| module | function | meaning |", "|---|---|---|", *rows])


def _parameter_types() -> str:
    """The types that algorithms share, with range and meaning."""
    from pydantic import create_model

    from maze_core.plugins.config import params

    body = ast.parse(inspect.getsource(params)).body
    names = {
        node.targets[0].id: following
        for node, following in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    fields: dict[str, Any] = {name: (getattr(params, name), ...) for name in names if not name.startswith("_")}
    rows = []
    for flag in flags(create_model("Parameters", **fields)):
        value = getattr(names[flag.field], "value", None)
        meaning = flag.description or (str(value.value) if isinstance(value, ast.Constant) else "")
        rows.append(f"| {code(flag.field)} | {code(flag.metavar)} | {code(flag.limits)} | {line(meaning)} |")
    return "\n".join(
        [
            "`maze_core.plugins.config.params`: one type, range and meaning for each name that algorithms share.",
            "The class of an algorithm's parameters sets the default: `lr: params.LearningRate = 1e-3`.",
            "",
            *["| type | values | range | meaning |", "|---|---|---|---|"],
            *rows,
        ]
    )


def hook_kinds() -> str:
    """A row for each hook and a column for each kind."""
    kinds = [kind for kind in KINDS if kind not in WITHOUT_HOOKS]
    rows = []
    for hook in (name for name in vars(HookSpecs) if not name.startswith("_")):
        cells = [_way(kind, hook) for kind in kinds]
        rows.append(f"| [`{hook}`](#{hook}) | {' | '.join(cells)} |")
    head = [f"| hook | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    return "\n".join(
        [
            "yes: may implement it; wraps: only with `@hookimpl(wrapper=True)`; empty: refused before the run begins.",
            f"Plugins of the kinds {', '.join(WITHOUT_HOOKS)} have methods instead of hooks.",
            "",
            *head,
            *rows,
        ]
    )


def _way(kind: str, hook: str) -> str:
    if not misplaced(kind, hook, wrapper=False):
        return "yes"
    return "wraps" if hook in WRAPPABLE and not misplaced(kind, hook, wrapper=True) else ""
