"""The parameters of IMPALA."""

from __future__ import annotations

from maze_impala.actors_config import ActorsConfig


class IMPALAConfig(ActorsConfig):
    """Importance weighted actor-learner architecture."""
