"""What each actor of a stream of rows remembers: a part of the stream's memory, and of its sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from maze_actors.routes import Blank, along

from maze_core.base.tree import subtree
from maze_core.data.sequences import Sequences

if TYPE_CHECKING:
    from collections.abc import Mapping

    from maze_actors.routes import Route
    from torch import Tensor

    from maze_core.base.tree import TensorTree

    Acting = list[tuple[str, Tensor]]
    """Names of actors, and the sequences of a batch in which each acts, in order."""


def taken_state(route: Route, group: int, actor: Tensor, actors: Mapping[int, str], state: TensorTree) -> TensorTree:
    """Return the memory of the actor that acts in each row of a group.

    Args:
        route: the rows of the groups.
        group: the group's number.
        actor: [B], the number of the actor of each row.
        actors: the group's actors, name by number.
        state: of all actors, leaves [B, …] named `ACTOR/…`.
    """
    acting = route.take(group, actor)
    taken: TensorTree = {}
    for number, name in actors.items():
        for key, leaf in subtree(state, f"{name}/").items():
            rows = route.take(group, leaf)
            taken[key] = rows if key not in taken else torch.where(along(acting == number, rows), rows, taken[key])
    return taken


def put_state(
    route: Route, group: int, actor: Tensor, actors: Mapping[int, str], state: TensorTree, after: TensorTree
) -> TensorTree:
    """Return the memory of a group's actors, leaves [B, …], with `after` for the actors that acted; as above."""
    following: TensorTree = {}
    for key, rows in after.items():
        whole = route.put({group: rows}, Blank.like(rows))
        for number, name in actors.items():
            before = state[f"{name}/{key}"]
            following[f"{name}/{key}"] = torch.where(along(actor == number, before), whole, before)
    return following


def group_sequences(
    sequences: Sequences, actor: Tensor, rows: Tensor, actors: Mapping[int, str]
) -> tuple[Sequences, Acting]:
    """Return the sequences of a group: one for each actor and each sequence of the batch in which it acts.

    Args:
        sequences: those of the batch.
        actor: [B], the number of the actor of each row.
        rows: [b], the numbers of the group's rows in the batch.
        actors: the group's actors, name by number.
    """
    device = actor.device
    count = len(sequences)
    # Of each row, sequence by sequence: its place among the rows of the group, its actor, and its sequence.
    place = torch.zeros(len(actor), dtype=torch.int64, device=device)
    place[rows] = torch.arange(len(rows), device=device)
    place, acting = sequences.ordered(place), sequences.ordered(actor)
    sequence = torch.arange(count).repeat_interleave(torch.from_numpy(sequences.lengths)).to(device)
    order, lengths, its = [], [], []
    state: dict[str, list[Tensor]] = {}
    for number, name in actors.items():
        mine = acting == number
        sizes = torch.bincount(sequence[mine], minlength=count)
        alive = sizes.nonzero().squeeze(-1)
        order.append(place[mine])
        lengths.append(sizes[alive].cpu().numpy())
        its.append((name, alive))
        for key, leaf in subtree(sequences.state, f"{name}/").items():
            state.setdefault(key, []).append(leaf[alive])
    joined = {key: torch.cat(leaves) for key, leaves in state.items()}
    return Sequences(np.concatenate(lengths), joined, torch.cat(order)), its


def put_ended(acting: Acting, ended: TensorTree, state: TensorTree) -> TensorTree:
    """Return leaves `ACTOR/…` of the batch's sequences: those of `state`, with what is remembered at their ends.

    Args:
        acting: of a group.
        ended: what is remembered after each sequence of the group.
        state: of the batch's sequences.
    """
    changed, start = {}, 0
    for name, alive in acting:
        for key, leaf in ended.items():
            full = f"{name}/{key}"
            changed[full] = state[full].index_copy(0, alive, leaf[start : start + len(alive)])
        start += len(alive)
    return changed
