"""The parameters of the runner `ray`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat

from maze_core import PluginConfig
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.params import SideBySide


class RayConfig(PluginConfig):
    """Environments and workers on a Ray cluster."""

    address: Annotated[str | None, Outside.ADDRESS.but("auto", "local")] = None
    """`host:port` of the head of a running cluster, `auto` for the cluster of this machine, or `local` to start Ray for
    this run alone; none: the environment variable RAY_ADDRESS if it is set, otherwise `local`."""
    workers: SideBySide | None = None
    """Number of workers; none: one per CPU."""
    cpus_per_worker: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """CPUs of the cluster that each worker reserves. Has no effect with `local`."""
    code: Annotated[tuple[str, ...], Outside.FOLDER] = ()
    """Folders of your own packages to send to the nodes, such as `my_envs`. Not used with `local`."""
    start_timeout: PositiveFloat = 120.0
    """Seconds that a worker may wait for free CPUs and start. The run continues without workers that take longer."""
    job_timeout: PositiveFloat = 300.0
    """Seconds before a worker that does not finish a job (a step, a rollout of IMPALA) ends the run."""
    max_restarts: NonNegativeInt = 20
    """Total number of restarts of lost workers. Workers lost after that are not replaced."""
