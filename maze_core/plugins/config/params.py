"""Types of algorithm parameters: each shared name has one type, range and meaning; algorithms set the defaults."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationInfo

from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.counting import CountsWith, CountsWithNumber
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.schedules import SCHEDULABLE

Width = Annotated[int, Field(gt=0, le=100_000)]
"""Units of a layer."""
Hidden = Annotated[tuple[Width, ...], Field(max_length=100)]
"""Units of each fully connected layer, from input to output."""
CriticHidden = Annotated[
    Hidden | None,
    CountsWith("critic", "separate"),
    Field(description="`hidden` of a separate critic; none: as many units as the policy has."),
]
MemorySize = Annotated[int, Field(gt=0, le=8192)]
"""Units of a memory."""
MemoryLayers = Annotated[int, Field(gt=0, le=16)]
"""Layers of a memory."""
MemoryWindow = Annotated[int, Field(gt=1, le=1024)]
"""Rows that a memory looks at, the current one included."""
_TIME = re.compile(r"(\d+(?:\.\d+)?) ?([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def _in_seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if (found := _TIME.fullmatch(value.strip())) is None:
        raise ValueError("must be a number of seconds, or a time such as 90s, 30m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


Duration = Annotated[float, BeforeValidator(_in_seconds), Field(gt=0, allow_inf_nan=False)]
"""A time in seconds, or as a text such as `30m` or `2h`."""
SideBySide = Annotated[int, Field(gt=0, le=100_000)]
"""Environments stepped in parallel, or worker processes."""
LearningRate = Annotated[float, Field(gt=0, description="Learning rate of the Adam optimizer."), SCHEDULABLE]
LearningRateSchedule = Annotated[
    Literal["auto", "constant", "linear"],
    CountsWithNumber("lr"),
    Field(
        description="`linear`: learning rates without a schedule of their own fall to 0 at the end of the run (needs "
        "`steps` or `n_epochs`). `auto`: linear in a run that has an end, else constant."
    ),
]
Gamma = Annotated[
    float, Field(ge=0, le=1, description="Discount factor of future rewards, per environment step."), SCHEDULABLE
]
GaeLambda = Annotated[
    float,
    CountsWith("model.critic"),
    Field(ge=0, le=1, description="Lambda of generalised advantage estimation: 0 one-step, 1 whole returns."),
    SCHEDULABLE,
]
RolloutSteps = Annotated[int, Field(gt=0, description="Steps per environment in one rollout.")]
SequenceLength = Annotated[
    Annotated[int, Field(gt=0)] | None,
    CountsWith("model.memory"),
    Field(
        description="Most steps through which gradients flow back in a policy with memory (`model.memory`); shorter "
        "sequences are faster. none: the whole rollout."
    ),
]
PolicyLossCoef = Annotated[float, Field(ge=0, description="Weight of the policy loss."), SCHEDULABLE]
ValueLossCoef = Annotated[
    float, CountsWith("model.critic"), Field(ge=0, description="Weight of the critic's squared error."), SCHEDULABLE
]
EntropyCoef = Annotated[float, Field(ge=0, description="Weight of the entropy bonus."), SCHEDULABLE]
ClipRange = Annotated[
    float,
    Field(gt=0, description="Clip range of the probability ratio of the new to the old policy, around 1."),
    SCHEDULABLE,
]
Share = Annotated[float, Field(ge=0, le=1), SCHEDULABLE]
"""A part of a whole, such as that of random actions."""
MaxGradNorm = Annotated[float, Field(ge=0, description="Largest global norm of the gradients; 0: no clipping.")]
BatchSize = Annotated[int, Field(gt=0, le=10_000_000, description="Rows of one minibatch.")]
CriticBurnInEpochs = Annotated[
    int,
    Field(
        ge=0,
        description="Number of first epochs in which only the critic learns and the policy stays as it is. Useful for "
        "fine-tuning a cloned policy.",
    ),
]


def _check_spread(normalize: bool, info: ValidationInfo) -> bool:
    """Refuse to normalise batches of one row; the field `batch_size` must come before."""
    if normalize and info.data.get("batch_size") == 1:
        raise ValueError("needs a batch_size of at least 2: a single advantage has no standard deviation")
    return normalize


NormalizeAdvantages = Annotated[
    bool,
    Field(description="Normalise the advantages of a batch to mean 0 and standard deviation 1.", validate_default=True),
    AfterValidator(_check_spread),
]
NormalizeRewards = Annotated[
    bool,
    Field(
        description="Divide rewards by the running standard deviation of discounted returns, and clip them to ±10. "
        "Scores are of the rewards as the environment pays them."
    ),
]
RolloutsPerIteration = Annotated[int, Field(gt=0, description="Rollouts of each environment before the next batches.")]
BatchesPerIteration = Annotated[int, Field(gt=0, description="Batches to learn from after these rollouts.")]
TrainingEnvironments = Annotated[int, Field(gt=0, le=100_000, description="Training environments stepped in parallel.")]
UpdatesPerStep = Annotated[
    float,
    Field(
        gt=0,
        le=1000,
        description="Updates for each environment step, all environments counted (update-to-data ratio). Below 1 some "
        "steps have none; fractions are carried over.",
    ),
]
CollectSteps = Annotated[
    int,
    Field(
        gt=0,
        le=10_000_000,
        description="Environment steps, summed over all environments, before the next updates; rounded up to whole "
        "steps of all environments.",
    ),
]
ReplayBufferSize = Annotated[
    int,
    Field(
        gt=0,
        description="Number of newest steps kept in the replay buffer. The last observation of an episode counts as a "
        "step. Memory and disk space are checked before the first step.",
    ),
]
InitialBufferSize = Annotated[
    int, Field(gt=0, description="Steps that `initial_sampling_policy` takes before learning begins.")
]
InitialSamplingPolicy = Annotated[
    str | dict[str, JsonValue],
    Outside.PLUGIN,
    Field(description="Policy plugin that acts before learning begins: its name, or its name and parameters."),
]
SplitRollouts = Annotated[
    bool,
    Field(description="Sample single steps from replay; false: sequences of `n_rollout_steps` consecutive steps."),
]
ReplayedLength = Annotated[
    int,
    CountsWith("model.memory"),
    Field(
        gt=0,
        le=100_000,
        description="Steps of a sequence, for a policy with memory (`model.memory`): gradients flow back to its start. "
        "Shorter at the end of an episode.",
    ),
]
ReplayBurnIn = Annotated[
    int,
    CountsWith("model.memory"),
    Field(
        ge=0,
        le=100_000,
        description="Steps before a sequence that a policy with memory reads without gradient, starting with what was "
        "remembered there when they were collected.",
    ),
]
HindsightGoals = Annotated[
    int,
    Field(
        ge=0,
        le=1000,
        description="Hindsight experience replay: goals achieved later in the episode that replace the desired one in "
        "as many samples of a step for each that keeps it (4: in 4 of 5). The environment needs goals and "
        "`compute_reward`. 0: none.",
    ),
]
ReturnSteps = Annotated[
    int, Field(gt=0, description="Rewards summed before bootstrapping (n-step returns)."), SCHEDULABLE
]
TargetRate = Annotated[
    float,
    Field(gt=0, le=1, description="Share of a network mixed into its target at each target update (tau)."),
    SCHEDULABLE,
]
TargetInterval = Annotated[int, Field(gt=0, description="Number of batches from one target update to the next.")]


def setting(algorithm: PluginConfig, name: str) -> str:
    """Return the path of a setting that bundled algorithms call `name`; of an algorithm without it: `algorithm`."""
    return f"algorithm.{name}" if hasattr(algorithm, name) else "algorithm"
