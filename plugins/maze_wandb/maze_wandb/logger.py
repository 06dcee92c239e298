"""Logs a run with Weights & Biases."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from maze_loggers.points import (
    Point,
    PointLogger,
    best_files,
    final_values,
    points_so_far,
    read_identity,
    write_identity,
)
from maze_loggers.settings import settings
from pydantic import PositiveFloat

from maze_core import PluginConfig, hookimpl
from maze_core.base import files
from maze_core.base.foreign_settings import refuse_settings_here, variables_set
from maze_core.plugins.config.external_fields import Outside

if TYPE_CHECKING:
    from maze_core import Run, RunSummary

IDENTITY = "wandb.json"
"""The file of the run directory that holds the id."""
SETTINGS = ("wandb/settings", ".wandb/settings", "config-defaults.yaml")
"""Files of the current folder that wandb reads: they name a server, folders to write to, and values to log."""
_FOLDER = "wandb"
_OFFLINE = "offline-run-"
_SERVICE = "WANDB_SERVICE"
"""The environment variable that wandb sets while its process runs."""


class WandbConfig(PluginConfig):
    """Where the run goes."""

    mode: Annotated[Literal["offline", "online"], Outside.CONNECTION.but("offline")] = "offline"
    """offline: into the run's `wandb/`, for a later `wandb sync`; nothing is sent. online: to the server too, with the
    login of `wandb login` or WANDB_API_KEY."""
    project: str = "maze"
    """The project of the run."""
    entity: Annotated[str | None, Outside.CONNECTION] = None
    """The user or team that owns the project; none: the default of the login."""
    run_name: str | None = None
    """The name of the run; none: that of its directory."""
    group: str | None = None
    """Runs of the same group are shown together."""
    tags: tuple[str, ...] = ()
    """Labels of the run."""
    checkpoint: Literal["best", "none"] = "best"
    """The checkpoint that becomes an artefact when the run ends. It contains the replay buffer if there is one."""
    timeout: PositiveFloat = 30.0
    """Seconds to wait for the server at the start."""


class Wandb(PointLogger):
    """Log metrics over environment steps, the configuration and the best checkpoint with Weights & Biases.

    An epoch is logged once its checkpoint is written, so a killed and resumed run has each point once. The id is in the
    run's `wandb.json`; a resumed run continues under it. Without a run directory it does nothing.
    """

    Config: ClassVar[type[PluginConfig]] = WandbConfig
    config: WandbConfig

    def __init__(self, config: WandbConfig) -> None:
        super().__init__(config)
        refuse_settings_here("wandb", SETTINGS, "callbacks.wandb")
        self._session: Any = None
        self._alone = True

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Start the run at Weights & Biases, or continue it, and log the epochs that it lacks."""
        if run.run_dir is None:
            return
        earlier = _offline_folders(run.run_dir)
        files.remove(run.run_dir / _FOLDER / "cache", run.run_dir)  # it may be somebody's, with links
        self._alone = _SERVICE not in os.environ
        with _environment(run.run_dir):
            try:
                self._session = self._begin(run, run.run_dir)
            except BaseException:
                self._end_service()
                raise
            # Online this is the first step after those that the server holds; an offline file begins empty.
            self.logged = self._session.step - 1 if self._session.resumed else -1
            self._log(self.unsent(points_so_far(run)))
        for name in earlier:  # the new file holds their points
            files.remove(run.run_dir / _FOLDER / name, run.run_dir)

    def _begin(self, run: Run, run_dir: Path) -> Any:
        import wandb

        config, known = self.config, read_identity(run_dir, IDENTITY)
        identity = known.get("id") or secrets.token_hex(4)
        if not known:
            write_identity(run_dir, IDENTITY, {"id": identity})
        return wandb.init(
            id=identity,
            mode=config.mode,
            dir=run_dir,
            project=config.project,
            entity=config.entity,
            name=config.run_name or run_dir.resolve().name,
            group=config.group,
            tags=list(config.tags),
            config=settings(run),
            allow_val_change=True,
            resume="allow" if config.mode == "online" else None,
            reinit="create_new",
            settings=_settings(config.timeout),
        )

    def send(self, run: Run, points: Iterator[Point]) -> None:
        """Log points, if the run has begun."""
        if self._session is not None and run.run_dir is not None:
            with _environment(run.run_dir):
                self._log(points)

    def _log(self, points: Iterator[Point]) -> None:
        for each in points:
            self._session.log(each.values, step=each.step, commit=True)

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Log the final evaluation and the best checkpoint, and finish."""
        session, self._session = self._session, None
        if session is None or run.run_dir is None:
            return
        import wandb

        with _environment(run.run_dir):
            try:
                session.summary.update({"outcome": summary.outcome, **final_values(summary.final_evaluation)})
                found = best_files(run.run_dir) if self.config.checkpoint == "best" else {}
                if found:
                    artifact = wandb.Artifact(f"best-{session.id}", type="model")
                    for name, path in found.items():
                        artifact.add_file(str(path), name, skip_cache=True, policy="immutable")
                    session.log_artifact(artifact, aliases=["best"])
            finally:
                session.finish(exit_code=0 if summary.outcome != "failed" else 1)
                self._end_service()

    def _end_service(self) -> None:
        """End wandb's process, unless another run of this program had started it."""
        import wandb

        if self._alone:
            wandb.teardown()


def _settings(timeout: float) -> Any:
    """Return settings with which wandb records what it is told, and nothing of this machine."""
    import wandb

    return wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        use_dot_wandb=False,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        init_timeout=timeout,
    )


@contextmanager
def _environment(run_dir: Path) -> Iterator[None]:
    """Keep wandb's caches in the run directory, its reports of own errors at home, and git out of the current folder.

    Its settings stay those of the user: a folder of settings in the run directory could name another server.
    """
    cache = run_dir / _FOLDER / "cache"
    files.make_folder(cache, run_dir)
    places = {name: str(cache) for name in ("WANDB_CACHE_DIR", "WANDB_DATA_DIR")}
    with variables_set({**places, "WANDB_ERROR_REPORTING": "false", "WANDB_DISABLE_GIT": "true"}):
        yield


def _offline_folders(run_dir: Path) -> list[str]:
    """Return the names of the offline runs in a run directory."""
    return [name for name in files.names(run_dir / _FOLDER, run_dir) if name.startswith(_OFFLINE)]
