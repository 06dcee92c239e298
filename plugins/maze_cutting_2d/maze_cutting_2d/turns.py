"""The structured forms as an environment of two actors."""

from __future__ import annotations

from typing import Any

import numpy as np
from maze_actors import ActorSpaces, Turn, TurnEnv

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.structured import ACTORS, SELECT, StructuredCutting


class CuttingInTurns(TurnEnv):
    """Serve orders from as few sheets as possible; `select` and `cut` decide about each order together."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 — gymnasium's own attribute

    def __init__(self, config: CuttingConfig, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._game = game = StructuredCutting(config, masked=config.form == "structured_masked")
        self.events = game.events
        super().__init__(
            {name: ActorSpaces(game.observation_spaces[name], game.action_spaces[name]) for name in ACTORS}
        )

    def first_turn(self) -> Turn:
        """Draw the orders of an episode; the stock is one fresh sheet."""
        return Turn(SELECT, self._game.reset(self.np_random))

    def next_turn(self, actor: str, action: Any) -> Turn:
        """Select a piece, or cut it and serve the current order."""
        observation, reward, done = self._game.step(int(action))
        served = self._game.to_move == SELECT
        return Turn(self._game.to_move, observation, reward, elapsed=float(served), terminated=done)

    def render(self) -> np.ndarray | None:
        """Return a picture of the sheets, uint8 [height, width, 3]."""
        from maze_cutting_2d.picture import picture

        return picture(self._game.episode.shop) if self.render_mode == "rgb_array" else None
