"""Evaluates the policy of a saved run: `maze eval`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from maze_core.base.errors import ConfigError
from maze_core.base.process_state import torch_threads
from maze_core.base.seeding import draw_seed
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.collect.policies.said_classes import said_classes
from maze_core.plugins.config.assembly import INSTALLED, Assembly
from maze_core.plugins.extensions import VIDEO, extension
from maze_core.run.episodes.run_evaluation import FINAL_EVALUATION
from maze_core.run.saved.found_run import checkpoint_folder, find_run
from maze_core.run.saved.saved_run import open_policy

if TYPE_CHECKING:
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.run.run import Run


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of evaluating a saved run, and which checkpoint it is of."""

    metrics: dict[str, float]
    """`eval/…` metrics of raw returns."""
    checkpoint: str
    """Name of the checkpoint."""
    epoch: int
    """Epochs finished when it was written."""
    seed: int
    title: str
    """Algorithm and environment."""
    videos: tuple[Path, ...] = ()


def evaluate_saved(
    run_dir: Path,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    deterministic: bool | None = None,
    checkpoint: str | None = None,
    video: Path | None = None,
    policy: str | None = None,
    runner: str | None = None,
    overrides: Sequence[str] = (),
    look_ahead: bool = True,
    assembly: Assembly = INSTALLED,
) -> Evaluation:
    """Evaluate a saved run's policy, or another one in the environment of a saved run.

    Args:
        run_dir: the run directory, or the address of a published policy.
        episodes: number of episodes; None: as configured.
        seed: determines the episodes; None: a new one is drawn.
        deterministic: most likely actions instead of samples; None: as configured.
        checkpoint: best, last or previous; None: the best, or the last if there is none.
        video: a folder to record the first episodes in.
        policy: a policy plugin, a class `module:Class`, or a file that a plugin plays, which acts instead of the run's
            network.
        runner: name of the runner that steps the environments; None: that of the run, on this machine.
        overrides: further changes of the configuration, and of that of `policy`, as `path=value` texts.
        look_ahead: with the run's planner, if it has one; False: the network acts alone.
        assembly: makes the configuration.
    """
    run_dir, seed = find_run(run_dir), draw_seed() if seed is None else seed
    changes: dict[str, object] = {"seed": seed} if runner is None else {"seed": seed, "runner": runner}
    if episodes is not None:
        changes["evaluation.n_episodes"] = episodes
    assembly = Assembly(said_classes(policy, load=assembly.load))
    its = [text for text in overrides if text.strip().startswith("policy.")]
    overrides = [
        *(text for text in overrides if text not in its),
        *(f"{path}={value}" for path, value in changes.items()),
    ]
    opened = open_policy(run_dir, checkpoint, overrides, assembly=assembly)
    with closing(opened) as run, torch_threads(run.config.threads):
        if not run.config.evaluation_episodes:
            raise ConfigError("this run is configured to evaluate no episodes", "--episodes", "Next: --episodes 20")
        acting = _policy(run, policy, its, assembly)
        with ExitStack() as stack:
            film = None if video is None else stack.enter_context(closing(_film(run, video)))
            options: dict[str, Any] = {"policy": acting, "look_ahead": look_ahead}
            metrics = run.evaluate(FINAL_EVALUATION, deterministic=deterministic, **options)
            videos = [] if film is None else film.shoot(deterministic, acting, look_ahead=look_ahead)
    metrics.pop("time/evaluation_seconds")
    name = checkpoint_folder(run_dir, checkpoint).name
    title = f"{run.config.algorithm.name} on {run.config.env_title}"
    return Evaluation(metrics, name, run.epoch, seed, title, tuple(videos))


class Film(Protocol):
    """The film of an episode; close it after use."""

    def shoot(
        self, deterministic: bool | None = None, policy: ActingPolicy | None = None, *, look_ahead: bool = True
    ) -> list[Path]:
        """Play the episode and return the files. `policy` acts instead of the run's network, as for `Run.evaluate`."""

    def close(self) -> None:
        """Close the environment and the file."""


def _film(run: Run, folder: Path) -> Film:
    """Return the film of a run's first episode. Raises ConfigError if nothing is installed that films."""
    film: Film = extension(VIDEO, "film", "filming", "maze-video", "--video")(run, folder)
    return film


def _policy(run: Run, policy: str | None, overrides: Sequence[str], assembly: Assembly) -> ActingPolicy | None:
    """Return the policy plugin that acts in a run's environments; None: the run's network acts."""
    if policy is None:
        if overrides:
            raise ConfigError("is only for --policy", "policy", "Next: maze eval --help")
        return None
    config = assembly.policy_config(policy, overrides)
    return build_policy_plugin(config, run.observation_space, run.action_space)
