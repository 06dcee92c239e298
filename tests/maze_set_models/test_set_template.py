"""The order of a set's elements does not matter, padding is not seen, and pointers follow the elements."""

import copy
import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_pictures.network import network_svg
from maze_set_models.config import SetTemplateConfig
from maze_set_models.model import SetTemplateModel
from pydantic import ValidationError

from maze_core.base.errors import ConfigError
from maze_core.models.blocks import count

K, F, B = 5, 3, 7
SEEN = spaces.Dict(
    {
        "stock": spaces.Box(-1, 1, (K, F), np.float32),
        "stock_present": spaces.MultiBinary(K),
        "queue": spaces.Box(-1, 1, (4, F), np.float32),
        "wish": spaces.Box(-1, 1, (2,), np.float32),
        "camera": spaces.Box(0, 255, (12, 12, 3), np.uint8),
        "mode": spaces.Discrete(3),
        "pick_mask": spaces.MultiBinary(2 * K),
    }
)
DONE = spaces.Dict({"pick": spaces.Discrete(2 * K), "force": spaces.Box(-1, 1, (2,), np.float32)})


def build(observation_space=SEEN, action_space=DONE, seed=0, **values):
    config = SetTemplateConfig(
        name="set_template", **{"embedding": 16, "image_features": 8, "pointers": {"pick": "stock"}, **values}
    )
    torch.manual_seed(seed)
    policy = SetTemplateModel(config).build_policy(observation_space, action_space, config)
    for parameter in policy.parameters():  # heads begin near zero, and biases at zero, which would hide differences
        parameter.data.add_(torch.randn(parameter.shape) / 5)
    return policy


def observations(seed=1):
    torch.manual_seed(seed)
    present = torch.tensor([[1, 1, 1, 0, 0]] * B)
    present[0], present[1], present[2] = torch.tensor([1, 0, 1, 0, 1]), 1, torch.tensor([1, 0, 0, 0, 0])
    return {
        "stock": torch.randn(B, K, F),
        "stock_present": present.to(torch.int8),
        "queue": torch.randn(B, 4, F),
        "wish": torch.randn(B, 2),
        "camera": torch.randint(0, 255, (B, 12, 12, 3), dtype=torch.uint8),
        "mode": torch.randint(0, 3, (B,)),
        "pick_mask": torch.ones(B, 2 * K, dtype=torch.int8),
    }


def outputs(policy, obs):
    with torch.no_grad():
        distribution, value = policy(obs)
        assert torch.equal(distribution.parts["pick"].logits, policy.distribution(obs).parts["pick"].logits)
        assert torch.equal(value, policy.value(obs))
    return distribution.parts["pick"].logits, distribution.parts["force"].mean, value


VARIANTS = [
    {"critic": critic, "attention_layers": layers, "pool": pool, "share_embeddings": shared}
    for critic, layers, pool, shared in [
        ("separate", 1, "mean", ()),
        ("shared", 2, "max", (("stock", "queue"),)),
        ("shared", 0, "mean", (("queue",),)),
    ]
]


@pytest.mark.parametrize("variant", VARIANTS)
def test_reordered_elements_reorder_the_pointers_logits_and_change_nothing_else(variant):
    policy, obs = build(**variant), observations()
    logits, mean, value = outputs(policy, obs)
    for order in itertools.islice(itertools.permutations(range(K)), 0, None, 17):
        moved = {**obs, "stock": obs["stock"][:, order], "stock_present": obs["stock_present"][:, order]}
        got, same_mean, same_value = outputs(policy, moved)
        torch.testing.assert_close(got.reshape(B, K, 2), logits.reshape(B, K, 2)[:, order], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(same_mean, mean, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(same_value, value, atol=1e-5, rtol=1e-5)
    queue = {**obs, "queue": obs["queue"].flip(1)}
    torch.testing.assert_close(outputs(policy, queue)[2], value, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_is_not_seen(variant):
    policy, obs = build(**variant), observations()
    there = obs["stock_present"].bool()
    other = {**obs, "stock": torch.where(there[..., None], obs["stock"], torch.randn(B, K, F) * 9)}
    for before, after in zip(outputs(policy, obs)[1:], outputs(policy, other)[1:], strict=True):
        torch.testing.assert_close(after, before)
    pairs = [outputs(policy, each)[0].reshape(B, K, 2)[there] for each in (obs, other)]
    torch.testing.assert_close(*pairs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_row_does_not_depend_on_how_much_padding_the_batch_shares(variant):
    """Padding at the end of all rows is left out, so alone a row is computed with fewer elements."""
    near = {"atol": 1e-4, "rtol": 1e-4}  # products of another number of rows are rounded in another way
    policy, obs = build(**variant), observations()
    together = outputs(policy, obs)
    there = obs["stock_present"].bool()
    for row in range(B):
        alone = outputs(policy, {key: leaf[row : row + 1] for key, leaf in obs.items()})
        torch.testing.assert_close(alone[2], together[2][row : row + 1], **near)
        mine = [logits.reshape(-1, K, 2)[there[row : row + 1]] for logits in (alone[0], together[0][row : row + 1])]
        torch.testing.assert_close(*mine, **near)


def test_elements_matter_and_see_each_other_only_by_attention():
    obs = observations()
    changed = {**obs, "stock": obs["stock"].clone()}
    changed["stock"][:, 0] += 1
    for layers in (0, 1):
        policy = build(attention_layers=layers)
        before, after = (policy.encoder._attended(each, torch.zeros(B, 136))[0]["stock"] for each in (obs, changed))
        assert not torch.allclose(before[:, 0], after[:, 0])
        assert torch.allclose(before[1, 2], after[1, 2]) == (layers == 0)


def test_a_set_without_elements_gives_finite_results():
    obs = observations()
    obs["stock_present"][:] = 0
    for variant in VARIANTS:
        assert all(part.isfinite().all() for part in outputs(build(**variant), obs))
    obs = {**observations(), "stock_present": torch.zeros(B, K, dtype=torch.int8)}
    only = spaces.Dict({"stock": SEEN["stock"], "stock_present": SEEN["stock_present"]})
    policy = build(only, spaces.Discrete(K), pointers={"action": "stock"})
    distribution, value = policy({key: obs[key] for key in only.spaces})
    (distribution.entropy().sum() + value.sum()).backward()
    assert all(parameter.grad.isfinite().all() for parameter in policy.parameters() if parameter.grad is not None)


def test_the_mask_decides_and_without_one_only_what_is_there_is_chosen():
    obs = observations()
    obs["pick_mask"][:] = 0
    obs["pick_mask"][:, 3] = 1
    assert build().distribution(obs).parts["pick"].mode().tolist() == [3] * B
    unmasked = spaces.Dict({key: space for key, space in SEEN.spaces.items() if key != "pick_mask"})
    policy = build(unmasked)
    probabilities = policy.distribution(obs).parts["pick"].log_probs.exp().reshape(B, K, 2)
    there = obs["stock_present"].bool()
    assert (probabilities[there] > 0).all()
    assert not probabilities[~there].any()


@pytest.mark.parametrize("critic", ["separate", "shared"])
def test_several_actions_may_point_to_one_set_or_to_several(critic):
    actions = spaces.Dict({"pick": spaces.Discrete(2 * K), "serve": spaces.Discrete(4), "drop": spaces.Discrete(K)})
    pointers = {"pick": "stock", "serve": "queue", "drop": "stock"}
    policy, obs = build(action_space=actions, pointers=pointers, critic=critic), observations()
    moved = {**obs, "queue": obs["queue"].flip(1)}
    before, after = (policy.distribution(each).parts for each in (obs, moved))
    torch.testing.assert_close(after["serve"].logits, before["serve"].logits.flip(1), atol=1e-5, rtol=1e-5)
    for key in ("pick", "drop"):
        torch.testing.assert_close(after[key].logits, before[key].logits, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(before["pick"].logits[:, ::2], before["drop"].logits)


def test_temperature_divides_the_scores():
    obs = observations()
    cold, hot = (build(temperature=t).distribution(obs).parts["pick"].logits for t in (1.0, 2.0))
    torch.testing.assert_close(cold, 2 * hot)


def test_it_learns_to_point():
    """The most valuable element, wherever it is: the picks are right also for orders that were never seen."""
    torch.manual_seed(3)
    policy = build(
        spaces.Box(0, 1, (6, 2), np.float32), spaces.Discrete(6), pointers={"action": "observation"}, critic="none"
    )
    optimizer = torch.optim.Adam(policy.parameters(), 3e-3)
    for _ in range(80):
        obs = {"observation": torch.rand(64, 6, 2)}
        best = obs["observation"][..., 0].argmax(1)
        optimizer.zero_grad()
        (-policy.distribution(obs).log_prob({"action": best})).mean().backward()
        optimizer.step()
    obs = {"observation": torch.rand(500, 6, 2)}
    picks = policy.distribution(obs).parts["action"].mode()
    assert (picks == obs["observation"][..., 0].argmax(1)).float().mean() > 0.9


def test_sets_are_not_normalised_and_other_leaves_are():
    assert build(normalize_observations=True).normalizer.keys == ("wish",)


def test_a_shared_embedding_has_one_set_of_parameters():
    assert count(build(share_embeddings=(("stock", "queue"),)).encoder.embeddings) * 2 == count(
        build().encoder.embeddings
    )


def test_copies_are_independent():
    policy, obs = build(critic="shared"), observations()
    other = copy.deepcopy(policy)
    for parameter in policy.parameters():
        parameter.data.zero_()
    assert outputs(other, obs)[2].abs().sum() > 0


@pytest.mark.parametrize("critic", ["separate", "shared", "none"])
def test_it_can_be_drawn(critic):
    svg = network_svg(build(critic=critic), "sets")
    for line in ("stock: 5 of 3 → 16", "attention: 1 layer, 4 heads", "pointer to stock, 2 choices each"):
        assert line in svg
    assert "diagonal Gaussian" in svg


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pointers": {"pick": "nothing"}}, r"model.pointers.pick: there is no set 'nothing'; sets: queue, stock"),
        ({"pointers": {"grip": "stock"}}, r"model.pointers.grip: there is no action leaf 'grip'; leaves: force, pick"),
        ({"pointers": {"force": "stock"}}, "does not point to the 5 elements of 'stock'"),
        ({"pointers": {"pick": "queue"}}, r"Discrete\(10\), which does not point to the 4 elements"),
        ({"blocks": {"nothing": "set"}}, "model.blocks: there is no observation leaf 'nothing'"),
        ({"blocks": {"wish": "set"}}, r"model.blocks.wish: 'wish' is no set.*\n.*\[K, F\]"),
        ({"blocks": {"mode": "image"}}, "'mode' is no image"),
        ({"share_embeddings": [["stock", "wish"]]}, "'wish' names no set"),
        ({"share_embeddings": [["stock"], ["stock"]]}, "'stock' is named more than once"),
    ],
)
def test_what_does_not_fit_is_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        build(**values)


def test_sets_that_do_not_fit_together_are_refused():
    leaves = {**SEEN.spaces, "queue": spaces.Box(-1, 1, (4, 2), np.float32)}
    with pytest.raises(ConfigError, match="different features per element: stock 3, queue 2"):
        build(spaces.Dict(leaves), share_embeddings=[["stock", "queue"]])
    with pytest.raises(ConfigError, match=r"marks the elements of 'stock', but has not 5 entries"):
        build(spaces.Dict({**leaves, "stock_present": spaces.MultiBinary(4)}))
    with pytest.raises(ValidationError, match="embedding \\(30\\) must be a multiple of attention_heads \\(4\\)"):
        build(embedding=30)
