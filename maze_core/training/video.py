"""Videos of a policy acting: one episode, one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch

from maze_core.envs.serial import SerialVectorEnv
from maze_core.errors import ConfigError
from maze_core.training.evaluation import evaluate_policy
from maze_core.training.seeding import EpisodeSeeds, Purpose, integer_seed

if TYPE_CHECKING:
    from maze_core.training.run import Run


class _Camera(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hands the picture after every reset and step to `shoot`."""

    def __init__(self, env: gymnasium.Env[Any, Any], shoot: Callable[[np.ndarray], None]) -> None:
        super().__init__(env)
        self._shoot = shoot
        self._done = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        if not self._done:
            self._take()
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._take()
        self._done = bool(terminated or truncated)
        return observation, reward, terminated, truncated, info

    def _take(self) -> None:
        picture: Any = self.env.render()
        self._shoot(np.asarray(picture))


def record_video(run: Run, folder: Path, *, deterministic: bool | None = None) -> list[Path]:
    """Record the first episode of `maze eval`'s to `folder` as MP4 (needs the extra `maze-core[video]`).

    Raises:
        ConfigError: the environment cannot render, or the video libraries are not installed.
    """
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        raise ConfigError(
            "recording needs imageio", "--video", 'Next: pip install "maze-core[video]"'
        ) from error
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "episode-0.mp4"
    kwargs = {**getattr(run.config.env, "kwargs", {}), "render_mode": "rgb_array"}
    builder = run.env_builder("evaluation", run.config.env.model_copy(update={"kwargs": kwargs}))
    env = builder(0)
    if env.render_mode != "rgb_array":
        env.close()
        raise ConfigError(f"{env} cannot render pictures (render_mode rgb_array)", "--video")
    fps = int(env.metadata.get("render_fps", 30))
    with imageio.get_writer(path, fps=fps, macro_block_size=2) as writer:
        vector = SerialVectorEnv(lambda _index: _Camera(env, writer.append_data), 1)
        try:
            _play(run, vector, deterministic)
        finally:
            vector.close()
    return [path]


def _play(run: Run, env: SerialVectorEnv, deterministic: bool | None) -> None:
    default = run.config.evaluation.deterministic
    evaluate_policy(
        run.policy,
        env,
        EpisodeSeeds(run.seed, Purpose.EVAL_EPISODES, (0,), stride=1),
        1,
        deterministic=default if deterministic is None else deterministic,
        noise=torch.Generator().manual_seed(integer_seed(run.seed, Purpose.EVAL_NOISE, 0)),
    )
