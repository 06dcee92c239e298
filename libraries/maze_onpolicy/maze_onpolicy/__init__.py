"""What on-policy algorithms share: rollouts and what collects them, returns and advantages, losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from maze_onpolicy.closed_form.actor_critic import Evaluated as Evaluated
    from maze_onpolicy.closed_form.terms import policy_gradient_term as policy_gradient_term
    from maze_onpolicy.closed_form.terms import squared_error_term as squared_error_term
    from maze_onpolicy.closed_form.terms import surrogate_term as surrogate_term
    from maze_onpolicy.collect.assembler import Assembler as Assembler
    from maze_onpolicy.collect.job_sampler import JobSampler as JobSampler
    from maze_onpolicy.collect.parameter_arrays import acting_arrays as acting_arrays
    from maze_onpolicy.collect.parameter_arrays import load_arrays as load_arrays
    from maze_onpolicy.collect.parameter_arrays import state_arrays as state_arrays
    from maze_onpolicy.collect.remote import RemoteStepper as RemoteStepper
    from maze_onpolicy.collect.remote import can_share_replay as can_share_replay
    from maze_onpolicy.collect.resident import ResidentSampler as ResidentSampler
    from maze_onpolicy.collect.rollout_collector import RolloutCollector as RolloutCollector
    from maze_onpolicy.collect.rollout_collector import learn_observations as learn_observations
    from maze_onpolicy.collect.sampler import Sampler as Sampler
    from maze_onpolicy.collect.several_agents import GROUP as GROUP
    from maze_onpolicy.collect.several_agents import AgentGroups as AgentGroups
    from maze_onpolicy.collect.several_agents import actor_metrics as actor_metrics
    from maze_onpolicy.collect.task_rollouts import TaskJob as TaskJob
    from maze_onpolicy.collect.task_rollouts import TaskRollouts as TaskRollouts
    from maze_onpolicy.constraints import cost_modules as cost_modules
    from maze_onpolicy.constraints import rollout_costs as rollout_costs
    from maze_onpolicy.data.discounts import rollout_discounts as rollout_discounts
    from maze_onpolicy.data.returns import explained_variance as explained_variance
    from maze_onpolicy.data.returns import generalized_advantages as generalized_advantages
    from maze_onpolicy.data.reward_scale import RewardScale as RewardScale
    from maze_onpolicy.data.rounding import nearly_equal as nearly_equal
    from maze_onpolicy.data.transitions import Transitions as Transitions
    from maze_onpolicy.data.vtrace import vtrace as vtrace
    from maze_onpolicy.learn.advantages import actor_critic_loss as actor_critic_loss
    from maze_onpolicy.learn.advantages import advantage_rows as advantage_rows
    from maze_onpolicy.learn.advantages import normalized as normalized
    from maze_onpolicy.learn.advantages import rollout_values as rollout_values
    from maze_onpolicy.learn.burn_in import CriticBurnIn as CriticBurnIn
    from maze_onpolicy.learn.divergence import check_divergence as check_divergence
    from maze_onpolicy.learn.divergence import distributions_of as distributions_of
    from maze_onpolicy.learn.parameters import policy_parameters as policy_parameters
    from maze_onpolicy.learn.parameters import with_parameters as with_parameters
    from maze_onpolicy.learn.recurrent import all_rows as all_rows
    from maze_onpolicy.learn.recurrent import remembered_values as remembered_values
    from maze_onpolicy.learn.recurrent import twice_differentiable as twice_differentiable
    from maze_onpolicy.learn.rmsprop import RMSprop as RMSprop
    from maze_onpolicy.learn.surrogate import clipped_surrogate as clipped_surrogate
    from maze_onpolicy.learn.surrogate import row_divergence as row_divergence
    from maze_onpolicy.tasks import Tasks as Tasks
    from maze_onpolicy.tasks import TaskValues as TaskValues

_HOMES = {
    "AgentGroups": "maze_onpolicy.collect.several_agents",
    "Assembler": "maze_onpolicy.collect.assembler",
    "CriticBurnIn": "maze_onpolicy.learn.burn_in",
    "Evaluated": "maze_onpolicy.closed_form.actor_critic",
    "GROUP": "maze_onpolicy.collect.several_agents",
    "JobSampler": "maze_onpolicy.collect.job_sampler",
    "RMSprop": "maze_onpolicy.learn.rmsprop",
    "RemoteStepper": "maze_onpolicy.collect.remote",
    "ResidentSampler": "maze_onpolicy.collect.resident",
    "RewardScale": "maze_onpolicy.data.reward_scale",
    "RolloutCollector": "maze_onpolicy.collect.rollout_collector",
    "Sampler": "maze_onpolicy.collect.sampler",
    "TaskJob": "maze_onpolicy.collect.task_rollouts",
    "TaskRollouts": "maze_onpolicy.collect.task_rollouts",
    "TaskValues": "maze_onpolicy.tasks",
    "Tasks": "maze_onpolicy.tasks",
    "Transitions": "maze_onpolicy.data.transitions",
    "acting_arrays": "maze_onpolicy.collect.parameter_arrays",
    "actor_critic_loss": "maze_onpolicy.learn.advantages",
    "actor_metrics": "maze_onpolicy.collect.several_agents",
    "advantage_rows": "maze_onpolicy.learn.advantages",
    "all_rows": "maze_onpolicy.learn.recurrent",
    "can_share_replay": "maze_onpolicy.collect.remote",
    "check_divergence": "maze_onpolicy.learn.divergence",
    "clipped_surrogate": "maze_onpolicy.learn.surrogate",
    "cost_modules": "maze_onpolicy.constraints",
    "distributions_of": "maze_onpolicy.learn.divergence",
    "explained_variance": "maze_onpolicy.data.returns",
    "generalized_advantages": "maze_onpolicy.data.returns",
    "learn_observations": "maze_onpolicy.collect.rollout_collector",
    "load_arrays": "maze_onpolicy.collect.parameter_arrays",
    "nearly_equal": "maze_onpolicy.data.rounding",
    "normalized": "maze_onpolicy.learn.advantages",
    "policy_gradient_term": "maze_onpolicy.closed_form.terms",
    "policy_parameters": "maze_onpolicy.learn.parameters",
    "remembered_values": "maze_onpolicy.learn.recurrent",
    "rollout_discounts": "maze_onpolicy.data.discounts",
    "rollout_values": "maze_onpolicy.learn.advantages",
    "rollout_costs": "maze_onpolicy.constraints",
    "row_divergence": "maze_onpolicy.learn.surrogate",
    "squared_error_term": "maze_onpolicy.closed_form.terms",
    "state_arrays": "maze_onpolicy.collect.parameter_arrays",
    "surrogate_term": "maze_onpolicy.closed_form.terms",
    "twice_differentiable": "maze_onpolicy.learn.recurrent",
    "vtrace": "maze_onpolicy.data.vtrace",
    "with_parameters": "maze_onpolicy.learn.parameters",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
