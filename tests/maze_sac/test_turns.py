"""SAC where several actors act: in each row the decision, value and entropy of its own actor count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_actors.turns import TurnEnv
from maze_devkit.turns import Carousel
from maze_offpolicy.models.joint_actions import JointActions, check_reparametrised
from maze_sac.actions import decide, target_entropy
from maze_sac.turns import decide_in_turns

from maze_core.base.errors import ConfigError
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.building import build_policy
from maze_core.models.mlp import MlpConfig, MlpModel

ROWS = 30


class Three(TurnEnv):
    """A chooser with a mask, a pusher with Box leaves only, and one with both, for their spaces."""

    def __init__(self):
        seen = spaces.Box(-1, 1, (2,), np.float32)
        masked = spaces.Dict({"seen": seen, "action_mask": spaces.MultiBinary(4)})
        force = spaces.Box(-2, 3, (2,), np.float32)
        both = spaces.Dict({"force": force, "tools": spaces.MultiDiscrete([2, 3])})
        super().__init__({"choose": (masked, spaces.Discrete(4)), "push": (seen, force), "use": (seen, both)})


def setting(env, **more):
    torch.manual_seed(0)
    config = MlpConfig(
        name="m", hidden=(8,), orthogonal_init=False, critic="none", state_dependent_std=True,
        **{"distribution": "squashed_gaussian", **more},
    )  # fmt: skip
    policy = build_policy(MlpModel(config).build_policy, env.observation_space, env.action_space, config)
    rng = np.random.default_rng(0)
    obs = allocate(space_specs(env.observation_space, "observation"), (ROWS,))
    for key, leaf in obs.items():
        leaf[...] = rng.integers(1, 2, leaf.shape) if key.endswith("_mask") else rng.random(leaf.shape)
    obs["turn/actor"][:] = rng.integers(3, size=ROWS)
    if "choose/action_mask" in obs:
        obs["choose/action_mask"][:, 2] = 0
    tensors = {key: torch.from_numpy(leaf) for key, leaf in obs.items()}
    return policy, JointActions(env.observation_space, env.action_space), tensors


def alone(policy, obs, noise, row):
    """The decision of a row's actor by its own policy, its own JointActions, and its kind's name."""
    actor = int(obs["turn/actor"][row])
    (group,) = [each for each in policy.groups if actor in each.actors]
    single, kind = policy.policies[f"{group.name}_policy"], group.kind

    def below(tree, name):
        rows = {key: leaf[row : row + 1] for key, leaf in tree.items()}
        whole = {name: rows[kind]} if kind in rows else {}
        return whole | {k.removeprefix(f"{kind}/"): v for k, v in rows.items() if k.startswith(f"{kind}/")}

    seen = below(obs, "observation")
    if len(group.actors) > 1:
        seen["actor_id"] = torch.tensor([group.actors.index(actor)])
    actions = JointActions(single.observation_space, single.action_space)
    return decide(actions, single.distribution(seen), below(noise, "action")), actions, kind, seen


@pytest.mark.parametrize("kind", [Three, Carousel])
def test_a_decision_is_that_of_the_rows_actor(kind):
    env = kind()
    policy, actions, obs = setting(env)
    noise = policy.draw_noise((ROWS,), torch.Generator().manual_seed(1))
    decision = decide_in_turns(actions, policy.distribution(obs), noise)
    acting = actions.acting(obs)
    goal = target_entropy(actions, obs, acting)
    values = torch.randn(2, ROWS, actions.outputs)
    expected = decision.expected(values)
    places, start = {}, 0
    for key, sizes in actions.choices.items():
        places[key] = slice(start, start + sum(sizes))
        start += sum(sizes)
    for row in range(ROWS):
        wanted, own, name, seen = alone(policy, obs, noise, row)
        torch.testing.assert_close(decision.negative_entropy[row], wanted.negative_entropy[0])
        assert float(goal[row]) == pytest.approx(float(target_entropy(own, seen)), abs=1e-5)
        mine = {key: key == name or key.startswith(f"{name}/") for key in (*actions.boxes, *actions.choices)}
        assert {key: bool(acting[key][row]) for key in mine} == mine
        its = [values[:, row, places[key]] for key in actions.choices if mine[key]] or [values[:, row, -1:]]
        torch.testing.assert_close(expected[:, row], wanted.expected(torch.cat(its, -1).unsqueeze(1))[:, 0])
        first = 0
        for key, scale in actions.boxes.items():
            part = decision.box[row, first : first + scale.size]
            first += scale.size
            torch.testing.assert_close(part, wanted.box[0] if mine[key] else torch.zeros(scale.size))


def test_values_of_taken_actions_are_those_of_the_rows_actor():
    _, actions, obs = setting(Three())
    assert actions.has_idle
    assert actions.outputs == 4 + 5 + 1
    values, acting = torch.randn(2, ROWS, actions.outputs), actions.acting(obs)
    taken = {
        "choose": torch.arange(ROWS) % 4,
        "push": torch.full((ROWS, 2), 3.0),
        "use/force": torch.full((ROWS, 2), -2.0),
        "use/tools": torch.stack([torch.arange(ROWS) % 2, torch.arange(ROWS) % 3], -1),
    }
    found, box = actions.chosen(values, taken, acting), actions.canonical(taken, acting)
    for row, actor in enumerate(obs["turn/actor"].tolist()):
        one = {0: values[:, row, row % 4], 1: values[:, row, -1]}
        one[2] = values[:, row, 4 + row % 2] + values[:, row, 6 + row % 3]
        torch.testing.assert_close(found[:, row], one[actor])
        assert box[row].tolist() == {0: [0, 0, 0, 0], 1: [1, 1, 0, 0], 2: [0, 0, -1, -1]}[actor]


def test_the_distribution_of_every_actor_is_checked():
    policy, actions, _ = setting(Three(), distribution="gaussian")
    with pytest.raises(
        ConfigError, match="within the bounds for the Box action 'push', and the distribution gaussian has none"
    ):
        check_reparametrised(policy, actions, "SAC")


def test_without_several_actors_nothing_is_selected():
    both = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (1,))})
    actions = JointActions(spaces.Box(-1, 1, (2,)), both)
    assert actions.acting({}) is None
    assert (actions.outputs, actions.has_idle) == (2, False)
