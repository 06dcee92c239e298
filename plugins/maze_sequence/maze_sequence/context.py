"""The transformer between encoder and heads, and what it remembers while it acts."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from maze_core import Dense, check_room
from maze_core.models.memory import Memory

if TYPE_CHECKING:
    from maze_core import Sequences, TensorTree
    from maze_sequence.config import DTConfig


class Context(Memory):
    """A causal transformer over the last K steps: of each the return still wanted, the observation and the action.

    Args:
        in_features: width F of the features of observations.
        actions: width A of the vectors of actions.
        config: the algorithm's.
    """

    target: Tensor
    """[1], the return of the best recorded episode, which is asked for where the configuration names none."""
    scale: Tensor
    """[1], what returns are divided by."""

    def __init__(self, in_features: int, actions: int, config: DTConfig) -> None:
        super().__init__()
        size, self.window, self.out_features = config.size, config.context, config.size
        check_room(12 * size * size * config.layers + (in_features + actions + config.max_steps) * size)
        self._features, self._actions = in_features, actions
        self._heads, self._last, self._asked = config.heads, config.max_steps - 1, config.target_return
        self.returns, self.seen, self.acted = Dense(1, size), Dense(in_features, size), Dense(actions, size)
        self.times = nn.Embedding(config.max_steps, size)
        nn.init.normal_(self.times.weight, std=0.02)
        block = nn.TransformerEncoderLayer(size, config.heads, 4 * size, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, config.layers, nn.LayerNorm(size), enable_nested_tensor=False)
        self.norm = nn.LayerNorm(size)
        self.reach = None if config.return_expectile is None else _reach(in_features, size)
        self.register_buffer("target", torch.zeros(1))
        self.register_buffer("scale", torch.ones(1))

    def initial_state(self, rows: int) -> TensorTree:
        """Return an empty context: the last K - 1 steps as zeros, the wanted return in `left`, and the `time` 0.

        Where returns within reach are learned, the first observation tells what is wanted.
        """
        past, zeros = self.window - 1, self.target.new_zeros
        target = self.target if self._asked is None else self.target.new_tensor([self._asked])
        return {
            "seen": zeros(rows, past, self._features),
            "acted": zeros(rows, past, self._actions),
            "wanted": zeros(rows, past),
            "left": (target / self.scale).repeat(rows),
            "time": zeros(rows, dtype=torch.int64),
        }

    def step(self, features: Tensor, state: TensorTree) -> tuple[Tensor, TensorTree]:
        """Take one row of each stream. `heard` says what was done in it, and what is still wanted."""
        left = state["left"]
        if self.reach is not None and self._asked is None:
            left = torch.where(state["time"] == 0, self.within_reach(features, state["time"]), left)
        seen = torch.cat((state["seen"], features.unsqueeze(1)), 1)
        wanted = torch.cat((state["wanted"], left.unsqueeze(1)), 1)
        acted = torch.nn.functional.pad(state["acted"], (0, 0, 0, 1))
        back = torch.arange(1 - self.window, 1, device=features.device)
        times = state["time"].unsqueeze(1) + back
        newest = self._look(seen, acted, wanted, times)[:, -1]
        past = {"seen": seen[:, 1:], "acted": acted[:, 1:], "wanted": wanted[:, 1:]}
        return newest, {**past, "left": left, "time": state["time"] + 1}

    def within_reach(self, features: Tensor, times: Tensor) -> Tensor:
        """Return what good episodes get from rows [B, F] at `times` [B] on, relative to the scale, [B]."""
        assert self.reach is not None  # noqa: S101
        early = 1 - times.clamp(0, self._last).unsqueeze(1) / (self._last + 1)
        return cast("Tensor", self.reach(torch.cat((features, early), 1)).squeeze(1))

    def heard(self, state: TensorTree, actions: Tensor, rewards: Tensor) -> TensorTree:
        """Return the state once the last step's actions [B, A] were executed and paid [B]."""
        acted = torch.cat((state["acted"][:, :-1], actions.unsqueeze(1)), 1) if self.window > 1 else state["acted"]
        return {**state, "acted": acted, "left": state["left"] - rewards / self.scale}

    def unroll(self, features: Tensor, sequences: Sequences, state: TensorTree) -> Tensor:
        """Take stretches of up to K recorded steps; `state` is that of `recorded`, else what was remembered."""
        if "left" in state:
            return super().unroll(features, sequences, state)
        seen = sequences.padded(features).transpose(0, 1)
        steps = torch.arange(seen.shape[1], device=features.device)
        times = state["time"].unsqueeze(1) + steps
        return sequences.unpadded(self._look(seen, state["acted"], state["wanted"], times).transpose(0, 1))

    def recorded(self, actions: Tensor, returns: Tensor, times: Tensor, sequences: Sequences) -> TensorTree:
        """Return what a recording knows of S stretches of up to L steps, for `unroll`.

        Args:
            actions: [B, A], of all rows.
            returns: [B], sums of the rewards from a row on.
            times: [S], steps of the episode before each stretch.
            sequences: the lengths of the stretches.
        """
        wanted = (returns / self.scale).unsqueeze(1)
        padded = sequences.padded(torch.cat((actions, wanted), 1)).transpose(0, 1)
        return {"acted": padded[..., :-1], "wanted": padded[..., -1], "time": times}

    def _look(self, seen: Tensor, acted: Tensor, wanted: Tensor, times: Tensor) -> Tensor:
        """Return features [S, L, size] of steps [S, L, …], each of which sees itself and those before it.

        Steps of negative `times` [S, L] do not exist, and are not seen.
        """
        tokens = torch.stack((self.returns(wanted.unsqueeze(-1)), self.seen(seen), self.acted(acted)), 2)
        tokens = self.norm(tokens + self.times(times.clamp(0, self._last)).unsqueeze(2)).flatten(1, 2)
        count = tokens.shape[1]
        missing = (times < 0).repeat_interleave(3, 1).unsqueeze(1)
        future = torch.ones(count, count, dtype=torch.bool, device=tokens.device).triu(1)
        # What does not exist sees itself alone: a softmax over nothing has no value.
        blocked = (future | missing) & ~torch.eye(count, dtype=torch.bool, device=tokens.device)
        rows: Tensor = self.blocks(tokens, blocked.repeat_interleave(self._heads, 0))
        return rows[:, 1::3]


def _reach(in_features: int, size: int) -> nn.Sequential:
    """Return the network of the returns within reach, which sees features and what is left of the time."""
    return nn.Sequential(Dense(in_features + 1, size), nn.GELU(), Dense(size, size), nn.GELU(), Dense(size, 1))
