"""How an algorithm for Box actions explores, by its parameters: on the most likely actions, or in the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import Field

from maze_core import ConfigError
from maze_core.base.seeding import load_random_state, random_state
from maze_core.plugins.config.counting import CountsWith
from maze_offpolicy.collect.action_noise import ActionNoise
from maze_offpolicy.collect.noise_processes import Coloured, NoiseProcess, OrnsteinUhlenbeck, Repeated, White

if TYPE_CHECKING:
    import numpy as np

    from maze_core import Policy, Run, TensorTree
    from maze_core.collect.agents.agent import Exploration

GAUSSIAN, WALK, COLOURED, REPEATED = "gaussian", "ornstein_uhlenbeck", "coloured", "repeated"
NoiseName = Literal["gaussian", "ornstein_uhlenbeck", "coloured", "repeated"]
OwnClass = Annotated[str, Field(pattern=r"^[^\W\d][\w.]*:[^\W\d]\w*$")]
"""A class of the user's own, as `module:Class`."""
NoiseTheta = Annotated[
    float,
    CountsWith("exploration", WALK),
    Field(gt=0, le=1, description="How fast `ornstein_uhlenbeck` noise is drawn back to 0; 1: at once, as `gaussian`."),
]
NoiseColor = Annotated[
    float,
    CountsWith("exploration", COLOURED),
    Field(
        ge=0, le=4, description="Power with which `coloured` noise falls with its frequency: 0 white, 1 pink, 2 red."
    ),
]
NoiseSteps = Annotated[
    int,
    CountsWith("exploration", COLOURED),
    Field(gt=1, le=1_000_000, description="Steps of a block of `coloured` noise: as many as an episode has, if known."),
]
NoiseLongest = Annotated[
    int,
    CountsWith("exploration", REPEATED),
    Field(gt=0, le=10_000, description="Most steps for which `repeated` noise stays as it is."),
]


def process_of(config: Any, rng: np.random.Generator) -> NoiseProcess:
    """Return the process that the parameter `exploration` and those that begin with `noise_` name."""
    if config.exploration == REPEATED:
        return Repeated(rng, config.noise_longest)
    if config.exploration == WALK:
        return OrnsteinUhlenbeck(rng, config.noise_theta)
    return Coloured(rng, config.noise_color, config.noise_steps) if config.exploration == COLOURED else White(rng)


def exploration_of(run: Run, config: Any, rng: np.random.Generator) -> Exploration:
    """Return what explores around the most likely actions, by `exploration` and `exploration_noise`.

    A class of the user's own is called with the run and a function that returns the standard deviation of the moment.
    """
    if ":" in config.exploration:
        own: Exploration = config.named_class("exploration", config.exploration)(run, lambda: config.exploration_noise)
        return own
    return ActionNoise(run.action_space, process_of(config, rng), lambda: config.exploration_noise)


class ProcessNoise:
    """The noise of samples of a policy whose Boxes are Gaussian, of which steps that follow each other are alike.

    Args:
        policy: samples with it.
        rows: N.
        generator: draws what is no Box.
        process: gives the numbers of the Boxes.

    Raises:
        ConfigError: a Box has another distribution.
    """

    def __init__(self, policy: Policy, rows: int, generator: torch.Generator, process: NoiseProcess) -> None:
        self._rows, self._generator, self._process = rows, generator, process
        self._boxes = [key for key, its in policy.noise.items() if set(its) == {"standard_normal"}]
        if not self._boxes:
            problem = "needs Box actions with a Gaussian distribution"
            raise ConfigError(problem, "algorithm.exploration", "Next: --set algorithm.exploration=gaussian")

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise of the next steps, leaves [steps, N, …]."""
        noise = policy.draw_noise((steps, self._rows), self._generator)
        sizes = [noise[key][0, 0].numel() for key in self._boxes]
        for step in range(steps):
            drawn = torch.from_numpy(self._process.next(self._rows, sum(sizes))).to(noise[self._boxes[0]])
            for key, part in zip(self._boxes, torch.split(drawn, sizes, 1), strict=True):
                noise[key][step] = part.view_as(noise[key][step])
        return noise

    def state(self) -> dict[str, Any]:
        """Return the random states."""
        return {"noise": random_state(self._generator), "process": self._process.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        load_random_state(self._generator, state["noise"])
        self._process.load_state(state["process"])
