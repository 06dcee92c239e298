"""Action masks: every form that fits, those that do not, and leaves that only look like one."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from maze_environments.mask_spaces import flat_masks, mask_space

from maze_core.base.errors import ConfigError, RunError
from maze_core.envs.masks import MaskCheck, mask_leaves
from tests.masked import BITS, FORMS, MEMBERS, TWO

X = spaces.Box(-1, 1, (2,), np.float32)
THREE = spaces.Discrete(3)


def seen(**leaves):
    return spaces.Dict({"x": X, **leaves})


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_found(name):
    form = FORMS[name]
    found = mask_leaves(spaces.Dict({"x": X, **form.masks}), form.action)
    entries = sum(len(members) for members in found.values())
    assert entries >= 1
    assert MaskCheck(spaces.Dict({"x": X, **form.masks}), form.action).leaves


@pytest.mark.parametrize(
    ("leaves", "action", "message"),
    [
        ({"game": spaces.Dict({"action_mask": BITS(3)})}, THREE, r"'game/action_mask'.*\n.*'action_mask': MultiBinary"),
        ({"action_masks": BITS(3)}, THREE, "'action_masks'"),
        ({"actionMask": BITS(3)}, THREE, "'actionMask'"),
        ({"ACTION_MASKS": BITS(3)}, THREE, "'ACTION_MASKS'"),
        ({"mask_of_actions": BITS(2)}, THREE, "'mask_of_actions'"),
        ({"action_mask_x": spaces.Box(-1, 1, (3,))}, THREE, "'action_mask_x'"),
        ({"avail_actions": BITS(3)}, THREE, "'avail_actions'"),
        ({"legal_moves": spaces.Box(0, 1, (3,), np.int8)}, THREE, "'legal_moves'"),
        ({"action_mask": BITS(6)}, TWO, r"\n.*'arm_mask': MultiBinary\(4\), or Tuple.*'move_mask': .*Or a Dict"),
        ({"robot": spaces.Dict({"arm_mask": BITS(4)})}, TWO, "'robot/arm_mask'"),
        ({"action_mask": spaces.Dict({"leg": BITS(4)})}, TWO, "'action_mask/leg'"),
        ({"action_mask": spaces.Tuple([BITS(2), BITS(3), BITS(2)])}, MEMBERS, "'action_mask/2'"),
        ({"action_mask": spaces.Tuple([BITS(3)])}, THREE, "'action_mask/0'"),
        ({"moves_mask": BITS(2)}, spaces.Dict({"push": X}), "'moves_mask'.*\n.*Box actions cannot be masked"),
        ({"masked_actions": BITS(3)}, THREE, "'masked_actions'"),
        ({"action_validity": BITS(3)}, THREE, "'action_validity'"),
        ({"armMask": BITS(4)}, TWO, "'armMask'"),
        ({"masks": spaces.Dict({"arm": BITS(4), "move": BITS(3)})}, TWO, "'masks/arm'"),
        ({"mask": spaces.Dict({"arm": spaces.Tuple([BITS(2), BITS(2)])})}, TWO, "'mask/arm/0'"),
        ({"arm": spaces.Dict({"mask": BITS(4)})}, TWO, "'arm/mask'"),
    ],
)  # fmt: skip
def test_a_leaf_named_like_a_mask_that_masks_nothing_is_refused(leaves, action, message):
    with pytest.raises(ConfigError, match=message):
        mask_leaves(seen(**leaves), action)


@pytest.mark.parametrize(
    ("leaf", "action", "message"),
    [
        (BITS(2), THREE, "needs 3 entries"),
        (spaces.Discrete(3), THREE, "needs 3 entries"),
        (spaces.Box(0, 1, (3, 2)), THREE, "needs 3 entries"),
        (spaces.Box(-1, 1, (3,)), THREE, "not declared as 0 and 1"),
        (spaces.Box(-np.inf, 0, (3,)), THREE, "not declared as 0 and 1"),
        (spaces.Box(0, 2, (3,), np.int8), BITS(3), "not declared as 0 and 1"),
        (spaces.MultiDiscrete([2, 2, 3]), THREE, "not declared as 0 and 1"),
        (spaces.Box(0, 1, (2, 3), np.int8), spaces.MultiDiscrete([2, 2, 2]), "not the shape"),
        (spaces.Tuple([BITS(3), BITS(2)]), MEMBERS, "'action_mask/0' needs 2 entries"),
        (spaces.Dict({"1": BITS(3)}), MEMBERS, "'action_mask/0' of one of its members is missing"),
        (BITS(2), X, "a Box action cannot be masked"),
        (spaces.Dict({"arm": BITS(2)}), TWO, "needs 4 entries"),
    ],
)
def test_a_mask_of_another_form_is_refused_with_the_one_that_fits(leaf, action, message):
    with pytest.raises(ConfigError, match=rf"'action_mask.*{message}.*\n.*(fits|Box actions)"):
        mask_leaves(seen(action_mask=leaf), action)


def test_two_masks_for_an_action_are_refused():
    with pytest.raises(ConfigError, match=r"'action_mask/move'.*'move_mask' masks it already"):
        mask_leaves(seen(move_mask=BITS(3), action_mask=spaces.Dict({"move": BITS(3)})), TWO)


@pytest.mark.parametrize(
    "leaves",
    [
        {"mask": spaces.Box(0, 255, (8, 8), np.uint8)},
        {"mask": BITS(3)},
        {"camera": spaces.Dict({"arm_mask": spaces.Box(0, 255, (8, 8), np.uint8)})},
        {"attention_mask": BITS(5), "interaction_mask": BITS(5)},
        {"valid_mask": BITS(4), "items_present": BITS(4)},
        {"last_action": spaces.Discrete(3), "legal_actions_left": spaces.Box(0, np.inf, (1,))},
        {"critic": spaces.Dict({"action_mask": BITS(9)})},
        {"arm": spaces.Dict({"attention_mask": BITS(5), "mask": spaces.Box(0, 1, (4, 4))})},
    ],
)
def test_other_leaves_stay_observations(leaves):
    assert mask_leaves(seen(**leaves), TWO) == {}


def test_a_mask_without_a_choice_is_named_with_its_row():
    check = MaskCheck(seen(action_mask=BITS(3)), THREE)
    rows = np.array([[1, 0, 0], [0, 0, 0]], np.int8)
    check.check({"action_mask": rows[:1]})
    with pytest.raises(RunError, match=r"'action_mask'.*'action'.*row 1 of 2"):
        check.check({"action_mask": rows})
    check = MaskCheck(seen(a=spaces.Dict({"b_mask": BITS(5)})), spaces.Dict({"a": spaces.Dict({"b": MEMBERS})}))
    rollout = np.ones((4, 7, 5), np.int8)
    check.check({"a/b_mask": rollout})
    rollout[2, 3, 2:] = 0
    with pytest.raises(RunError, match=r"'a/b_mask'.*'a/b', member 1 \(row 17 of 28\)"):
        check.check({"a/b_mask": rollout})
    check = MaskCheck(seen(action_mask=spaces.Tuple([BITS(2), BITS(3)])), MEMBERS)
    masks = {"action_mask/0": np.ones((2, 2), np.int8), "action_mask/1": np.array([[0, 1, 0], [0, 0, 0]], np.int8)}
    with pytest.raises(RunError, match=r"'action_mask/1'.*member 1 \(row 1 of 2\)"):
        check.check(masks)
    MaskCheck(seen(action_mask=BITS(3)), BITS(3)).check({"action_mask": np.zeros((2, 3), np.int8)})  # bits may be 0


def test_masks_in_gymnasiums_form_become_those_of_the_space():
    space = mask_space(spaces.Dict({**TWO.spaces, "push": X}))
    given = {"arm": (np.array([1, 0]), [0, True]), "move": None, "push": None}
    masks = flat_masks(space, given)
    assert space.contains(masks)
    assert (masks["arm"].tolist(), masks["move"].tolist()) == ([1, 0, 0, 1], [1, 1, 1])
    odd = ({"move": each} for each in ([1], [0, 2, 1], ["a", "b", "c"], [np.nan, 1, 0], [0, -np.inf, -np.inf]))
    for wrong in ({"arm": [1, 0]}, {"leg": [1]}, [1, 0], *odd):
        with pytest.raises(ValueError, match="mask"):
            flat_masks(space, wrong)
