"""What the bridge knows of RLlib's algorithms: which module they learn, what they act in and what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gymnasium import Space, spaces

from maze_core import ConfigError

if TYPE_CHECKING:
    from maze_core import RunConfig

_SMALL_LATENCY = {"timeout_s_sampler_manager": 0.1, "use_env_runner_state_server": False, "min_time_s_per_iteration": 0}
"""With RLlib's defaults the learner of IMPALA and APPO spins while it waits, which starves workers on few cores."""
_MANY_ENVS = {"num_envs_per_env_runner": 8}


@dataclass(frozen=True)
class Family:
    """Algorithms of RLlib that learn the same kind of network."""

    module: str | None = None
    """The module around Maze's policy, as `module:Class`; None: only RLlib's own network can learn."""
    options: tuple[str, ...] = ()
    """Parameters that the module reads."""
    action_spaces: tuple[type[Space[Any]], ...] | None = None
    """Kinds of the only action; None: every action space."""
    check: Callable[[Any, RunConfig], None] | None = None
    """Refuses models that Maze's module cannot use."""
    offline: bool = False
    """True if it learns from recordings."""
    recurrent: bool = False
    """True if it learns RLlib's own network with an LSTM; RLlib fails with those of the others."""
    has_critics: bool = False
    """True if Maze's module has critics of its own."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that differ from RLlib's."""
    epoch_length: int = 1
    iterations: str = "RLlib's training iterations per epoch."
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults for the parts of the run."""


def _check_critic(config: Any, run: RunConfig) -> None:
    if getattr(run.model, "critic", None) == "none":
        raise ConfigError(f"{config.name} needs a critic", "model.critic", "Next: --set model.critic=separate")


def _check_values(config: Any, run: RunConfig) -> None:
    """Refuse settings that need heads which Maze's models do not have."""
    if config.num_atoms != 1:
        raise ConfigError("needs RLlib's own network", "algorithm.num_atoms", "Next: --rllib-model")
    if config.dueling and getattr(run.model, "critic", None) == "none":
        hint = "Next: --set model.critic=separate, or --no-dueling"
        raise ConfigError("dueling uses the critic of the model, but the model has none", "model.critic", hint)


def _check_squashed(config: Any, run: RunConfig) -> None:
    """Refuse a state critic, which would never learn, and a Gaussian that leaves the bounds."""
    if getattr(run.model, "critic", "none") != "none":
        text = f"{config.title} has its own critics; a state critic would never learn"
        raise ConfigError(text, "model.critic", "Leave it at none.")
    if getattr(run.model, "distribution", "squashed_gaussian") != "squashed_gaussian":
        raise ConfigError(f"{config.title} needs the squashed Gaussian", "model.distribution", "Leave it as it is.")


_ACTOR_CRITIC = Family("maze_rllib.modules:ActorCriticModule", check=_check_critic, recurrent=True)
_CLONING = replace(_ACTOR_CRITIC, offline=True, epoch_length=50, iterations="Batches per epoch.")
_ASYNCHRONOUS = replace(
    _ACTOR_CRITIC,
    values={**_MANY_ENVS, **_SMALL_LATENCY, "num_learners": 0},
    epoch_length=10,
    iterations="RLlib's training iterations per epoch; each has at least one batch.",
)
_OFF_POLICY = Family(action_spaces=(spaces.Box,), epoch_length=5)
_SQUASHED_MODEL = {
    "model": {
        "critic": "none",
        "distribution": "squashed_gaussian",
        "state_dependent_std": True,
        "hidden": [256, 256],
        "activation": "relu",
    }
}
_OFFLINE = replace(_OFF_POLICY, offline=True, epoch_length=50, iterations="Batches per epoch.")
_FAMILIES: Mapping[str, Family] = {
    "PPO": replace(_ACTOR_CRITIC, values=_MANY_ENVS),
    "IMPALA": _ASYNCHRONOUS,
    "APPO": replace(_ASYNCHRONOUS, module="maze_rllib.modules:TargetedActorCriticModule"),
    "BC": _CLONING,
    "MARWIL": _CLONING,
    "DQN": replace(
        _OFF_POLICY,
        module="maze_rllib.value_modules:QModule",
        options=("dueling", "double_q", "epsilon"),
        action_spaces=(spaces.Discrete,),
        check=_check_values,
        iterations="RLlib's training iterations per epoch; each is 1,000 steps of the environments.",
    ),
    "SAC": replace(
        _OFF_POLICY,
        module="maze_rllib.value_modules:SACModule",
        options=("twin_q",),
        action_spaces=(spaces.Box, spaces.Discrete),
        check=_check_squashed,
        has_critics=True,
        defaults=_SQUASHED_MODEL,
    ),
    "TQC": _OFF_POLICY,
    "CQL": replace(_OFFLINE, values={"lr": None}),  # RLlib refuses its own default
    "IQL": _OFFLINE,
    "DreamerV3": replace(_OFF_POLICY, action_spaces=(spaces.Box, spaces.Discrete), epoch_length=1),
}


def family(title: str) -> Family:
    """Return what the bridge knows of an algorithm; of one that is new in RLlib, that its own network can learn."""
    return _FAMILIES.get(title, Family())


_MEANINGS = {
    "APPO": "asynchronous PPO",
    "BC": "behavioural cloning of recorded trajectories",
    "CQL": "conservative Q-learning from recorded trajectories",
    "DQN": "double, dueling, n-step, with prioritised replay",
    "DreamerV3": "a world model, and a policy that learns in its imagination",
    "IMPALA": "importance weighted actor-learner architecture",
    "IQL": "implicit Q-learning from recorded trajectories",
    "MARWIL": "cloning of recorded trajectories that prefers the better actions",
    "PPO": "proximal policy optimisation",
    "SAC": "soft actor-critic",
    "TQC": "soft actor-critic with truncated quantile critics",
}


def describe(title: str) -> str:
    """Return a sentence about an algorithm."""
    kinds = family(title).action_spaces
    taken = f"one {' or '.join(each.__name__ for each in kinds)} action" if kinds else "every action space"
    return f"RLlib's {title}: {_MEANINGS[title]}, for {taken}." if title in _MEANINGS else f"RLlib's {title}."
