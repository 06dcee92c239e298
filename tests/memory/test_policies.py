"""Policies that remember: whole sequences give what single steps give."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_onpolicy.data.pieces import Pieces
from maze_onpolicy.learn.recurrent import all_rows, remembered_values

from maze_core.base.errors import PluginError
from maze_core.data.batch import Batch
from maze_core.data.rollout import Rollout
from maze_core.data.sequences import Sequences
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.models.policy import Policy

SPACE = spaces.Dict({"a": spaces.Box(-1, 1, (3,)), "b": spaces.Discrete(4)})
ACTIONS = spaces.Dict({"x": spaces.Discrete(3), "y": spaces.Box(-1, 1, (2,))})
KINDS = [("gru", 1), ("gru", 2), ("lstm", 1), ("lstm", 2), ("window", 1), ("window", 2), ("linear", 1), ("linear", 2)]
STEPS, COLUMNS = 13, 3


def policy_of(kind: str, layers: int = 1, critic: str = "separate") -> Policy:
    torch.manual_seed(0)
    config = MlpConfig(
        name="mlp", memory=kind, memory_size=8, memory_layers=layers, memory_window=5, critic=critic, hidden=(6,)
    )
    return MlpModel(config).build_policy(SPACE, ACTIONS, config).eval()


def observations(*shape: int) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    return {"a": torch.rand(*shape, 3, generator=rng), "b": torch.randint(4, shape, generator=rng)}


def step_by_step(policy: Policy, obs: dict[str, torch.Tensor], begins: np.ndarray, state: dict[str, torch.Tensor]):
    """Logits, values and states after each step [T][N], by single steps of policy and critic alone; an oracle."""
    logits, values, states = [], [], []
    for t in range(len(begins)):
        rows = {key: leaf[t] for key, leaf in obs.items()}
        fresh = policy.initial_state(begins.shape[1])
        begun = torch.from_numpy(begins[t])
        state = {
            key: torch.where(begun.reshape(-1, *[1] * (leaf.ndim - 1)), fresh[key], leaf) for key, leaf in state.items()
        }
        distribution, after = policy.step(rows, state)
        if policy.critic_memory is not None:
            own = {k.removeprefix("critic/"): v for k, v in state.items() if k.startswith("critic/")}
            features, own = policy.critic_memory.step(policy.critic_encoder(rows), own)
            after = {**after, **{f"critic/{k}": v for k, v in own.items()}}
        else:
            own = {k.removeprefix("policy/"): v for k, v in state.items()}
            features, _ = policy.memory.step(policy.encoder(rows), own)
        logits.append(distribution.parts["x"].logits)
        values.append(policy.value_head(features).squeeze(-1))
        states.append(after)
        state = after
    return torch.stack(logits), torch.stack(values), states


def random_state(policy: Policy, rows: int) -> dict[str, torch.Tensor]:
    """A state in the middle of episodes: that after three steps."""
    state, obs = policy.initial_state(rows), observations(3, rows)
    *_, states = step_by_step(policy, obs, np.zeros((3, rows), bool), state)
    return states[-1]


def flat(obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: leaf.flatten(0, 1) for key, leaf in obs.items()}


@pytest.mark.parametrize(("kind", "layers"), KINDS)
@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_sequences_give_what_single_steps_give_across_several_beginnings(kind: str, layers: int, critic: str) -> None:
    policy = policy_of(kind, layers, critic)
    obs, ended = observations(STEPS, COLUMNS), np.random.default_rng(2).random((STEPS, COLUMNS)) < 0.25
    begins = np.concatenate([np.zeros((1, COLUMNS), bool), ended[:-1]])
    with torch.no_grad():
        state = random_state(policy, COLUMNS)
        logits, values, states = step_by_step(policy, obs, begins, state)
        pieces = Pieces.of(np.ones_like(ended), ended)
        before = pieces.states(policy.initial_state(len(pieces.columns)), state)
        sequences = Sequences(pieces.lengths, before, torch.from_numpy(pieces.rows(COLUMNS)))
        distribution, value, after = policy.unroll(flat(obs), sequences)
    assert len(pieces.columns) > 2 * COLUMNS
    torch.testing.assert_close(distribution.parts["x"].logits, logits.flatten(0, 1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(value, values.flatten(), atol=1e-6, rtol=1e-5)
    for key, leaf in after.items():
        last = zip(pieces.columns, pieces.first + pieces.lengths - 1, strict=True)
        wanted = torch.stack([states[t][key][column] for column, t in last])
        torch.testing.assert_close(leaf, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("kind", "layers"), KINDS)
def test_gradients_do_not_cross_the_beginning_of_an_episode(kind: str, layers: int) -> None:
    policy = policy_of(kind, layers)
    obs = flat(observations(6, 1))
    obs["a"].requires_grad_()
    ended = np.zeros((6, 1), bool)
    ended[2] = True
    pieces = Pieces.of(np.ones_like(ended), ended)
    sequences = Sequences(pieces.lengths, policy.initial_state(2), torch.from_numpy(pieces.rows(1)))
    distribution, value = policy(obs, sequences)
    (distribution.parts["x"].logits[5].sum() + value[5]).backward()
    gradient = obs["a"].grad.abs().sum(-1)
    assert (gradient[:3] == 0).all()
    assert (gradient[3:] > 0).all()


def made_rollout(policy: Policy) -> Rollout:
    """Three environments: one goes on, one is cut and terminates, one has a filler row after its end."""
    obs = {key: leaf.numpy() for key, leaf in observations(STEPS + 1, COLUMNS).items()}
    flags = {name: np.zeros((STEPS, COLUMNS), bool) for name in ("terminated", "truncated")}
    valid = np.ones((STEPS, COLUMNS), bool)
    flags["truncated"][4, 1] = flags["terminated"][9, 1] = flags["truncated"][STEPS - 1, 2] = True
    flags["terminated"][6, 2], valid[7, 2] = True, False
    final = {key: leaf.numpy() for key, leaf in observations(2).items()}
    cuts = [
        (4, np.array([1]), {key: leaf[:1] for key, leaf in final.items()}),
        (STEPS - 1, np.array([2]), {key: leaf[1:] for key, leaf in final.items()}),
    ]
    actions = {"x": np.zeros((STEPS, COLUMNS), np.int64), "y": np.zeros((STEPS, COLUMNS, 2), np.float32)}
    rewards = np.random.default_rng(3).standard_normal((STEPS, COLUMNS)).astype(np.float32)
    with torch.no_grad():
        memory = {key: leaf.numpy() for key, leaf in random_state(policy, COLUMNS).items()}
    return Rollout(obs, actions, rewards, **flags, valid=valid, truncations=cuts, memory=memory)


@pytest.mark.parametrize(
    ("kind", "layers", "length"),
    [*((*kind, length) for kind in KINDS for length in (None, 3)), *(("lstm", 2, length) for length in (1, 5, 100))],
)
def test_values_of_a_rollout_use_the_memory_of_the_step_before_a_cut(
    kind: str, layers: int, length: int | None
) -> None:
    policy = policy_of(kind, layers)
    rollout = made_rollout(policy)
    obs = {key: torch.from_numpy(leaf) for key, leaf in rollout.obs.items()}
    ended = rollout.terminated | rollout.truncated
    begins = np.zeros((STEPS + 1, COLUMNS), bool)
    begins[1:] = ended | ~rollout.valid
    with torch.no_grad():
        state = {key: torch.from_numpy(leaf) for key, leaf in rollout.memory.items()}
        logits, values, states = step_by_step(policy, obs, begins, state)
        wanted = values[1:].numpy().copy()
        for t, columns, final in rollout.truncations:
            rows = {key: torch.from_numpy(leaf)[None] for key, leaf in final.items()}
            after = {key: leaf[columns] for key, leaf in states[t].items()}
            _, at_end, _ = step_by_step(policy, rows, np.zeros((1, len(columns)), bool), after)
            wanted[t, columns] = at_end[0].numpy()
        found, following, sequences = remembered_values(policy, rollout, flat(obs), length)
        again = policy.distribution(flat(obs := {k: v[:-1] for k, v in obs.items()}), all_rows(policy, rollout))
    valid, matters = rollout.valid, rollout.valid & ~rollout.terminated
    np.testing.assert_allclose(found[valid], values[:-1].numpy()[valid], atol=1e-6)
    np.testing.assert_allclose(following[matters], wanted[matters], atol=1e-6)
    real = torch.from_numpy(valid.reshape(-1))
    torch.testing.assert_close(again.parts["x"].logits[real], logits[:-1].flatten(0, 1)[real], atol=1e-6, rtol=1e-5)
    assert sorted(sequences.order.tolist()) == np.flatnonzero(valid).tolist()
    assert sequences.lengths.max() <= (length or STEPS)
    # From the stored states the sequences give the same again: they are what an update learns from.
    rows = {key: leaf[sequences.order] for key, leaf in flat(obs).items()}
    with torch.no_grad():
        distribution, value = policy(rows, Sequences(sequences.lengths, sequences.state))
    torch.testing.assert_close(value, values[:-1].flatten()[sequences.order], atol=1e-6, rtol=1e-5)
    wanted_logits = logits[:-1].flatten(0, 1)[sequences.order]
    torch.testing.assert_close(distribution.parts["x"].logits, wanted_logits, atol=1e-6, rtol=1e-5)


def test_minibatches_draw_whole_sequences_once() -> None:
    lengths = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    rows = torch.arange(int(lengths.sum()))
    number = torch.from_numpy(np.repeat(np.arange(8), lengths))
    sequences = Sequences(lengths, {"policy/hidden": torch.arange(8.0)[:, None]})
    batch = Batch({"o": rows}, {}, {"number": number}, sequences=sequences)
    drawn = list(batch.minibatches(8, np.random.default_rng(0)))
    assert 3 <= len(drawn) <= 5
    assert sorted(torch.cat([part.obs["o"] for part in drawn]).tolist()) == rows.tolist()
    for part in drawn:
        assert part.sequences.lengths.sum() == len(part)
        begun = part.obs["o"][torch.from_numpy(part.sequences.starts)]
        for start, length, state in zip(
            begun, part.sequences.lengths, part.sequences.state["policy/hidden"], strict=True
        ):
            assert (number[start : start + length] == int(state)).all()
            assert lengths[int(state)] == length


def test_rows_without_their_sequences_are_refused() -> None:
    policy = policy_of("gru")
    with pytest.raises(PluginError, match="without their sequences"):
        policy(observations(2))


def test_a_policy_that_remembers_can_be_copied() -> None:
    policy = policy_of("lstm")
    again = copy.deepcopy(policy)
    assert again.remembers
    assert policy_of("none").initial_state(3) == {}
