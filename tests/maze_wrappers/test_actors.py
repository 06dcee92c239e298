"""Wrappers in environments with several actors: they leave masks alone, and whose turn it is."""

from __future__ import annotations

import pytest
from maze_devkit.turns import Carousel, Shelves

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import actors_of
from maze_core.envs.spaces import flatten_space


@pytest.fixture
def wrapped(quick):
    def spaces(env, name, **settings):
        context = quick(env, "ppo", {"model.hidden": [4]}, wrappers=[{"name": name, **settings}])
        context.train()
        return flatten_space(context.run.observation_space, "observation"), context

    return spaces


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (Shelves, "one_hot"),
        (Shelves, "unsqueeze"),
        (Carousel, "unsqueeze"),
        (Shelves, "rescale_observations"),
        (Carousel, "rescale_observations"),
    ],
)
def test_wrappers_of_leaves_keep_turns_and_masks(wrapped, env, name):
    before = flatten_space(env().observation_space, "observation")
    after, context = wrapped(env, name)
    kept = [key for key in before if key.startswith("turn/") or key.endswith("_mask")]
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert after != before or name == "rescale_observations"
    assert actors_of(context.run.observation_space) == actors_of(env().observation_space)


def test_parts_may_be_selected_but_not_the_turn_away(wrapped):
    after, _ = wrapped(Shelves, "select", keys=["pick", "place/guest"])
    assert set(after) == {"pick/guest", "pick/action_mask", "place/guest", "turn/actor", "turn/elapsed"}
    after, _ = wrapped(Shelves, "drop", keys=["place/item"])
    assert "place/item" not in after
    for keys in (["turn"], ["turn/elapsed"]):
        with pytest.raises(ConfigError, match=r"wrappers.0.keys: the part 'turn' says whose turn it is"):
            wrapped(Shelves, "drop", keys=keys)
    with pytest.raises(ConfigError, match=r"'turn/elapsed' .* says whose turn it is"):
        wrapped(Shelves, "rescale_observations", keys=["turn/elapsed"])
    with pytest.raises(ConfigError, match=r"'pick/action_mask' .* is an action mask"):
        wrapped(Shelves, "flatten", keys=["pick/action_mask"])
    with pytest.raises(ConfigError, match="flatten would change nothing"):
        wrapped(Shelves, "flatten")


@pytest.mark.parametrize("name", ["stack", "step_skip"])
def test_wrappers_over_several_steps_are_refused(wrapped, name):
    with pytest.raises(ConfigError, match=f"wrappers.0: {name} does not fit an environment with several actors"):
        wrapped(Shelves, name)
