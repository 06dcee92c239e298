"""The film of one episode of a run's policy, for `maze eval --video`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maze_core import EpisodeSeeds, Purpose, torch_generator
from maze_core.envs.wrappers import cycled
from maze_core.run.episodes.evaluation import evaluate_policy
from maze_video.recorder import FilmRecorder

if TYPE_CHECKING:
    from maze_core import ActingPolicy, Run


class Film:
    """The film of the first episode of `maze eval`, in a folder. Close it after use.

    Raises:
        ConfigError: the environment cannot render; nothing has been played.
    """

    def __init__(self, run: Run, folder: Path) -> None:
        self._run, self._films = run, FilmRecorder(run.env_builder("evaluation"), folder)
        self._env = self._films.vector_env(1)
        self._env.load_memory(cycled(run.wrapper_memory(), range(1)))

    def shoot(
        self, deterministic: bool | None = None, policy: ActingPolicy | None = None, *, look_ahead: bool = True
    ) -> list[Path]:
        """Play the episode and return the files. `policy` acts instead of the run's network, as for `Run.evaluate`."""
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
            planning=run.planning("evaluation") if look_ahead and policy is None else None,
        )
        return [self._films.path(0)]

    def close(self) -> None:
        """Close the environment and the file."""
        self._env.close()
