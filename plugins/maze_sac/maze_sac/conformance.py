"""The conformance kit's trials of SAC, SACfD and FlashSAC."""

from __future__ import annotations

from maze_devkit import Case, Trial

_CRITIC = {"critic_hidden": [32, 32]}


def sac(case: Case) -> Trial:
    """Use small critics."""
    return Trial(parameters=_CRITIC)


def sacfd(case: Case) -> Trial:
    """Use small critics and a recording of the environment."""
    return Trial(parameters={**_CRITIC, "initial_demonstrations": str(case.demonstrations())})


def flash(case: Case) -> Trial:
    """Use small networks, few environments and small batches."""
    sizes = {"policy_width": 16, "policy_blocks": 1, "critic_width": 16, "critic_blocks": 1, "atoms": 11}
    return Trial(parameters={**sizes, "num_envs": 2, "utd": 2, "batch_size": 32, "lr": 0.01, "tau": 0.1})
