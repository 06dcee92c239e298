"""The starter plugin of each kind, and how it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Starter:
    """A working plugin to start from; its code is `templates/STARTER.py.txt`."""

    suffix: str
    """Suffix of its class name, after the plugin's own name."""
    summary: str
    """What it does, as a sentence without a full stop."""
    command: str
    """The command that shows it at work; `$name` is the plugin's name."""
    kind: str = ""
    """The plugin's kind, where it is not what the starter is called."""
    requires: tuple[str, ...] = ()
    """The distributions that it builds on beside the core; they have the core's version."""


STARTERS: Mapping[str, Starter] = {
    "algorithm": Starter(
        "", "Policy gradient with a critic as its baseline, on-policy, for every action space",
        "maze train $name --env CartPole-v1",
        requires=("maze-onpolicy",),
    ),
    "env": Starter(
        "Source", "Grid worlds of any size: find the corner",
        "maze train ppo --env-source $name",
    ),
    "wrapper": Starter(
        "Wrapper", "Multiply rewards by a constant",
        "maze train ppo --env CartPole-v1 --wrappers $name",
    ),
    "model": Starter(
        "Model", "Policy and critic with residual layers, for observations without images",
        "maze train ppo --env CartPole-v1 --model $name",
    ),
    "distribution": Starter(
        "Family", "Laplace distributions for Box actions, clipped to the bounds",
        "maze train ppo --env Pendulum-v1 --set model.distribution=$name",
    ),
    "memory": Starter(
        "Memory", "Running averages of learned features, with learned decays",
        "maze train ppo --env CartPole-v1 --set model.memory=$name",
    ),
    "runner": Starter(
        "Runner", "Environments in this process, two per core",
        "maze train ppo --env CartPole-v1 --runner $name",
    ),
    "callback": Starter(
        "Callback", "Write the evaluation of each epoch to a CSV file",
        "maze train ppo --env CartPole-v1 --set callbacks.$name={}",
    ),
    "policy": Starter(
        "Policy", "Balance CartPole by pushing to the side to which the pole falls",
        "maze rollout --policy $name --env CartPole-v1 --episodes 8",
    ),
    "searcher": Starter(
        "Searcher", "Change one value of the best point so far",
        "maze sweep ppo --env CartPole-v1 --over algorithm.lr=1e-5..1e-2:log --searcher $name",
        requires=("maze-sweep",),
    ),
    "teacher": Starter(
        "Teacher", "Play the episodes of the lowest return again",
        "maze train ppo --env CartPole-v1 --callback curriculum "
        "--set callbacks.curriculum.parameters.seed=[0,99] --set callbacks.curriculum.teacher=$name",
        requires=("maze-curricula",),
    ),
    "command": Starter(
        "", "Print the best epoch of a run",
        "maze $name --help",
    ),
}  # fmt: skip
"""The kinds that `maze plugins new` knows."""

OFF_POLICY = "off_policy_algorithm"
VARIANTS: Mapping[str, Starter] = {
    OFF_POLICY: Starter(
        "", "Deep Q-learning, off-policy, for one Discrete action",
        "maze train $name --env CartPole-v1",
        "algorithm",
        requires=("maze-offpolicy",),
    ),
}  # fmt: skip
"""Further starters of a kind."""
