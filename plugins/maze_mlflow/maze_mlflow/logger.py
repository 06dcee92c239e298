"""Logs a run with MLflow."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from pydantic import Field, PositiveFloat

from maze_core import ConfigError, PluginConfig, hookimpl
from maze_core.base import files
from maze_core.base.foreign_settings import variables_set
from maze_core.base.terminal_text import shown
from maze_core.plugins.config.external_fields import Outside

if TYPE_CHECKING:
    from maze_core import Run, RunSummary

IDENTITY = "mlflow.json"
"""The file of the run directory that holds tracking URI and run id."""
_MOST_METRICS, _MOST_PARAMS, _LONGEST_PARAM, _LONGEST_NAME = 1000, 100, 6000, 250
"""What MLflow takes: metrics and parameters of one request, and characters."""
_DATABASE = "sqlite:///"
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""The last bytes of an SQLite journal with the name of another file before them."""
_STATUS = {"finished": "FINISHED", "stopped": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MlflowConfig(PluginConfig):
    """Where the run goes."""

    tracking_uri: Annotated[str | None, Outside.ADDRESS] = None
    """Address of the tracking server or store, such as `http://127.0.0.1:5000`; none: the run's `mlflow/`, and nothing
    is sent. Environment variables of MLflow do not change it."""
    experiment: str = "maze"
    """The experiment, which is created if the store has none of this name."""
    run_name: str | None = None
    """The name of the run; none: that of its directory."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Labels of the run."""
    checkpoint: Literal["best", "none"] = "best"
    """The checkpoint that becomes an artefact when the run ends. It contains the replay buffer if there is one."""
    timeout: PositiveFloat = 10.0
    """Seconds to wait for an answer of the server."""


class Mlflow(PointLogger):
    """Log metrics over environment steps, the configuration and the best checkpoint with MLflow.

    An epoch is logged once its checkpoint is written, so a killed and resumed run has each point once. The id is in the
    run's `mlflow.json`; a resumed run continues under it. Without a run directory it does nothing.
    """

    Config: ClassVar[type[PluginConfig]] = MlflowConfig
    config: MlflowConfig

    def __init__(self, config: MlflowConfig) -> None:
        super().__init__(config)
        self._client: Any = None
        self._id = ""
        self._started = 0

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Start the run at MLflow, or continue it, and log the epochs that it lacks."""
        if run.run_dir is None:
            return
        with self._environment():
            client = self._connect(run.run_dir)
            self._id, self._started = self._identify(client, run.run_dir)
            self._log_settings(client, settings(run))
            # The last value of a batch is `epoch`: a batch that was cut short is logged again.
            self.logged = max((each.step for each in client.get_metric_history(self._id, "epoch")), default=-1)
            self._client = client
            self._log(self.unsent(points_so_far(run)))

    def _connect(self, run_dir: Path) -> Any:
        from mlflow.tracking import MlflowClient

        if self.config.tracking_uri is not None:
            if self.config.tracking_uri.startswith(_DATABASE):
                database = Path(self.config.tracking_uri.removeprefix(_DATABASE))
                _check_database(database, database.parent)
            return MlflowClient(tracking_uri=self.config.tracking_uri)
        database = run_dir / "mlflow" / "mlflow.db"
        files.make_folder(database.parent, run_dir)
        _check_database(database, run_dir)
        return MlflowClient(tracking_uri=f"{_DATABASE}{database.absolute()}")

    def _identify(self, client: Any, run_dir: Path) -> tuple[str, int]:
        """Return id and start time, in milliseconds, of the run that continues or is new."""
        where = self.config.tracking_uri or "local"
        known = read_identity(run_dir, IDENTITY)
        if known.get("tracking_uri") == where and "run_id" in known:
            client.update_run(known["run_id"], status="RUNNING")
            return known["run_id"], client.get_run(known["run_id"]).info.start_time
        name = self.config.run_name or run_dir.resolve().name
        made = client.create_run(self._experiment(client, run_dir), run_name=name, tags=self.config.tags)
        write_identity(run_dir, IDENTITY, {"tracking_uri": where, "run_id": made.info.run_id})
        return made.info.run_id, made.info.start_time

    def _experiment(self, client: Any, run_dir: Path) -> str:
        found = client.get_experiment_by_name(self.config.experiment)
        if found is not None:
            return str(found.experiment_id)
        local = self.config.tracking_uri is None
        place = (run_dir / "mlflow" / "artifacts").absolute().as_uri() if local else None
        return str(client.create_experiment(self.config.experiment, artifact_location=place))

    def _log_settings(self, client: Any, values: dict[str, Any]) -> None:
        """Log the configuration as parameters. MLflow never changes one: a value changed by a resume becomes a tag."""
        from mlflow.entities import Param, RunTag

        texts = {_name(path): _text(value)[:_LONGEST_PARAM] for path, value in values.items()}
        known = client.get_run(self._id).data.params
        new = [Param(key, text) for key, text in texts.items() if key not in known]
        changed = [RunTag(key, text) for key, text in texts.items() if known.get(key, text) != text]
        for first in range(0, len(new), _MOST_PARAMS):
            client.log_batch(self._id, params=new[first : first + _MOST_PARAMS])
        if changed:
            client.log_batch(self._id, tags=changed[:_MOST_PARAMS])

    def send(self, run: Run, points: Iterator[Point]) -> None:
        """Log points, if the run has begun."""
        if self._client is not None:
            with self._environment():
                self._log(points)

    def _log(self, points: Iterator[Point]) -> None:
        for each in points:
            values = {name: value for name, value in each.values.items() if name != "epoch"}
            moment = self._started + round(1000 * each.seconds)
            self._log_values({**values, "epoch": each.values["epoch"]}, each.step, moment)

    def _log_values(self, values: dict[str, float], step: int, moment: int) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(_name(name), value, moment, step) for name, value in values.items()]
        for first in range(0, len(metrics), _MOST_METRICS):
            self._client.log_batch(self._id, metrics=metrics[first : first + _MOST_METRICS])

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Log the final evaluation and the best checkpoint, and finish."""
        if self._client is None or run.run_dir is None:
            return
        with self._environment():
            try:
                final, step = final_values(summary.final_evaluation), summary.env_steps or summary.updates
                self._log_values(self._unlogged(final, step), step, self._started + round(1000 * summary.seconds))
                if self.config.checkpoint == "best":
                    self._check_artifacts(run.run_dir)
                    self._log_files(best_files(run.run_dir))
            finally:
                self._client.set_terminated(self._id, _STATUS[summary.outcome])
                self._client = None

    def _unlogged(self, values: dict[str, float], step: int) -> dict[str, float]:
        """Return the values, without those that an earlier end at the same step has logged."""
        known = self._client.get_run(self._id).data.metrics
        histories = {name: self._client.get_metric_history(self._id, _name(name)) for name in values if name in known}
        return {
            name: value for name, value in values.items() if all(each.step != step for each in histories.get(name, []))
        }

    def _check_artifacts(self, run_dir: Path) -> None:
        """Raise ConfigError if the run's own database, which may come from someone else, names a folder elsewhere."""
        place = str(self._client.get_run(self._id).info.artifact_uri)
        own = (run_dir / "mlflow" / "artifacts").absolute().as_uri()
        if self.config.tracking_uri is None and (not place.startswith(f"{own}/") or ".." in place):
            problem = f"the database names {shown(place)} for artefacts, which is not in this run: none is written"
            raise ConfigError(problem, "checkpoint", "Next: --set callbacks.mlflow.checkpoint=none")

    def _log_files(self, found: dict[str, Path]) -> None:
        for name, path in found.items():
            folder = Path("best") / Path(name).parent
            self._client.log_artifact(self._id, str(path), folder.as_posix())

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """Keep MLflow's reports of its use at home, and its patience with a server short."""
        values = {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, round(self.config.timeout))),
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        }
        with variables_set(values):
            yield


def _check_database(database: Path, root: Path) -> None:
    """Raise an error where a file of a database below `root` is a link, or its journal names another file.

    SQLite rolls back the journal of an interrupted write, and then deletes the file whose name stands at its end. The
    journal of a single database, such as this one, has no such name.
    """
    for path in (database.with_name(database.name + ending) for ending in ("", "-journal", "-wal", "-shm")):
        with suppress(FileNotFoundError), files.open_file(path, "r+b", root) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(_NAMES_ANOTHER)))
            if path.name.endswith("-journal") and file.read() == _NAMES_ANOTHER:
                problem = f"{path} is not of this database: SQLite would delete the file that it names"
                raise ConfigError(problem, "callbacks.mlflow", "Next: delete the journal, if you know nothing of it.")


def _name(text: str) -> str:
    """Return a name that MLflow accepts."""
    return re.sub(r"[^\w\-. /]", "_", text)[:_LONGEST_NAME]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
