"""Videos of a policy acting, one file per episode. Another distribution, such as maze-video, does the filming."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose, torch_generator
from maze_core.envs.wrappers.carry import cycled
from maze_core.plugins import discovery
from maze_core.run.episodes.evaluation import evaluate_policy

if TYPE_CHECKING:
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv
    from maze_core.run.run import Run

VIDEO = "maze.video"
"""The entry-point group for filming: `studio` is called with an environment's builder and a folder."""


class FilmRecorder(Protocol):
    """Films episodes of environments that are stepped in turn."""

    def vector_env(self, num_envs: int) -> VectorEnv:
        """Build environments, each with a camera. The caller closes them."""

    def film(self, first: int, count: int) -> None:
        """Film the next episode of the first `count` environments, as episodes `first`, `first + 1`, …."""

    def path(self, number: int) -> Path:
        """Return the file of an episode."""


def open_recorder(builder: EnvBuilder, folder: Path) -> FilmRecorder:
    """Return the studio that films environments into a folder.

    Raises:
        ConfigError: no studio is installed, or it cannot film here.
    """
    claims = discovery.entries(VIDEO, "studio")
    if not claims:
        raise ConfigError("filming needs maze-video, which is not installed", "--video", "Next: pip install maze-video")
    studio: FilmRecorder = discovery.import_claim(claims[0])(builder, folder)
    return studio


class Film:
    """The film of the first episode of `maze eval`, in a folder. Close it after use.

    Raises:
        ConfigError: as for `open_recorder`, or the environment cannot render; nothing has been played.
    """

    def __init__(self, run: Run, folder: Path) -> None:
        self._run, self._films = run, open_recorder(run.env_builder("evaluation"), folder)
        self._env = self._films.vector_env(1)
        self._env.load_memory(cycled(run.wrapper_memory(), range(1)))

    def shoot(self, *, deterministic: bool | None = None, policy: ActingPolicy | None = None) -> list[Path]:
        """Play the episode and return the files. `policy` acts instead of the run's network."""
        run = self._run
        self._films.film(0, 1)
        default = run.config.evaluation.deterministic
        evaluate_policy(
            run.policy if policy is None else policy,
            self._env,
            EpisodeSeeds(run.seed, Purpose.EVAL_EPISODES, (0,), stride=1),
            1,
            deterministic=default if deterministic is None else deterministic,
            noise=torch_generator(run.seed, Purpose.EVAL_NOISE, 0),
        )
        return [self._films.path(0)]

    def close(self) -> None:
        """Close the environment and the file."""
        self._env.close()
