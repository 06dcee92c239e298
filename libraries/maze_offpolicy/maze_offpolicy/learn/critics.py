"""The critics of a run whose algorithm learns values of states and actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core import Purpose
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_offpolicy.models.critics import build_critics

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run
    from maze_offpolicy.models.critics import StateActionCritics
    from maze_offpolicy.models.joint_actions import JointActions

_CRITICS = 1
# Separates their random numbers from those of the policy.


def critics_of(run: Run, actions: JointActions, config: Any, outputs: int = 1, **options: Any) -> StateActionCritics:
    """Return critics on the run's device; only the run's seed decides their first parameters.

    Args:
        run: has the policy whose observations they see.
        actions: the actions that they rate.
        config: with `critic_hidden`, `critic_activation` and `n_critics`.
        outputs: values that each critic returns.
        options: further arguments of `build_critics`.
    """
    with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
        layers = config.critic_hidden, config.critic_activation, config.n_critics
        return build_critics(run.policy, actions.box_size, outputs, *layers, **options).to(run.device)
