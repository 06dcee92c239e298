"""The parameters of the runner `ray`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat

from maze_core.config.base import PluginConfig
from maze_core.config.outside import Outside
from maze_core.config.params import SideBySide


class RayConfig(PluginConfig):
    """Environments and workers on a Ray cluster."""

    address: Annotated[str | None, Outside.ADDRESS] = None
    """`host:port` of a running cluster's head, `auto` for the cluster that this machine belongs to, or `local` for a
    Ray of this run's own; none: the environment variable RAY_ADDRESS where it is set, else `local`."""
    workers: SideBySide | None = None
    """Workers that step environments, or share a task that any number can share; none: one for each CPU."""
    cpus_per_worker: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """CPUs of the cluster that a worker occupies. Not counted on a Ray of this run's own."""
    code: Annotated[tuple[str, ...], Outside.FOLDER] = ()
    """Folders of your own packages to send to the nodes, such as `my_envs`. Not for a Ray of this run's own."""
    start_timeout: PositiveFloat = 120.0
    """Seconds a worker may take to find room in the cluster and to start; the run continues without late ones."""
    job_timeout: PositiveFloat = 300.0
    """Seconds after which a worker that has not answered a job (a step, a rollout of IMPALA) ends the run."""
    max_restarts: NonNegativeInt = 20
    """How often in all a lost worker is started again; workers lost after that are dropped."""
