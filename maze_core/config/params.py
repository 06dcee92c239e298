"""Types of algorithm parameters: each shared name has one type, range and meaning; algorithms set the defaults."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

Width = Annotated[int, Field(gt=0, le=100_000)]
"""Units of a layer."""
Hidden = Annotated[tuple[Width, ...], Field(max_length=100)]
"""Units of fully connected layers, the first one nearest to the input."""
SideBySide = Annotated[int, Field(gt=0, le=100_000)]
"""Environments stepped in parallel, or worker processes."""
LearningRate = Annotated[float, Field(gt=0, description="Learning rate of the Adam optimizer.")]
LearningRateSchedule = Annotated[
    Literal["constant", "linear"],
    Field(description="`linear`: the learning rate falls to 0 at the end of the run (needs `steps` or `n_epochs`)."),
]
Gamma = Annotated[float, Field(ge=0, le=1, description="Discount of future rewards per environment step.")]
GaeLambda = Annotated[
    float, Field(ge=0, le=1, description="Generalised advantage estimation: 0 one-step, 1 whole returns.")
]
RolloutSteps = Annotated[int, Field(gt=0, description="Steps per environment in one rollout.")]
PolicyLossCoef = Annotated[float, Field(ge=0, description="Weight of the policy loss.")]
ValueLossCoef = Annotated[float, Field(ge=0, description="Weight of the critic's squared error.")]
EntropyCoef = Annotated[float, Field(ge=0, description="Weight of the entropy bonus.")]
MaxGradNorm = Annotated[float, Field(ge=0, description="Global norm gradients are clipped to; 0: no clipping.")]
BatchSize = Annotated[int, Field(gt=0, le=10_000_000, description="Rows of one minibatch.")]
CriticBurnInEpochs = Annotated[
    int,
    Field(
        ge=0,
        description="First epochs in which only the critic learns, and nothing that the policy does changes; for "
        "fine-tuning a cloned policy.",
    ),
]
NormalizeAdvantages = Annotated[
    bool, Field(description="Shift and scale advantages to mean 0 and standard deviation 1 before they are used.")
]
RolloutsPerIteration = Annotated[int, Field(gt=0, description="Rollouts of each environment before the next batches.")]
BatchesPerIteration = Annotated[int, Field(gt=0, description="Batches learned from after the rollouts.")]
TrainingEnvironments = Annotated[
    int, Field(gt=0, le=100_000, description="Environments stepped in parallel in training.")
]
ReplayBufferSize = Annotated[
    int,
    Field(
        gt=0,
        description="Newest steps kept to learn from; the last observation of an episode takes the room of a step. "
        "Memory and disk space are checked before the first step.",
    ),
]
InitialBufferSize = Annotated[
    int, Field(gt=0, description="Steps that `initial_sampling_policy` takes before learning begins.")
]
InitialSamplingPolicy = Annotated[
    str | dict[str, JsonValue],
    Field(description="What acts before learning begins: a policy plugin by name, or its name and parameters."),
]
SplitRollouts = Annotated[
    bool,
    Field(description="Draw single steps from replay; false: runs of `n_rollout_steps` consecutive ones."),
]
ReturnSteps = Annotated[
    int, Field(gt=0, description="Rewards summed up before the critics' estimate takes over (n-step returns).")
]
TargetRate = Annotated[
    float, Field(gt=0, le=1, description="Share of the critics that moves into their targets at each target update.")
]
TargetInterval = Annotated[int, Field(gt=0, description="Batches between two target updates.")]
