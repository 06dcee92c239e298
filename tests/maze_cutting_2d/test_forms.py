"""The forms: the same episodes, masks that allow what fits, and configurations that are refused."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.flat import Cutting
from maze_cutting_2d.geometry import WAYS
from maze_cutting_2d.structured import ACTORS, StructuredCutting
from maze_cutting_2d.turns import CuttingInTurns
from pydantic import ValidationError

from maze_core.base.errors import ConfigError
from maze_core.run.context import RunContext


def config(**values):
    return CuttingConfig(name="cutting_2d", **{"orders": 25, "inventory": 12, **values})


@pytest.mark.parametrize("form", ["flat", "masked"])
@pytest.mark.parametrize("instances", ["static", "random"])
@pytest.mark.parametrize("known", [0, 3])
def test_gymnasium_accepts_it(form, instances, known):
    check_env(Cutting(config(form=form, instances=instances, known=known)), skip_render_check=True)


def test_the_mask_allows_exactly_what_does_not_change():
    env = Cutting(config())
    observation, _ = env.reset(seed=3)
    rng, over = np.random.default_rng(0), False
    while not over:
        shop = env.episode.shop
        for action in range(env.action_space.n):
            slot, way = action // 4, WAYS[action % 4]
            assert observation["action_mask"][action] == (shop.possible(slot, way) == (slot, way))
        allowed = np.flatnonzero(observation["action_mask"])
        observation, _, over, truncated, _ = env.step(rng.choice(allowed))
        assert not truncated
    assert observation["action_mask"].all()
    assert not observation["order"].any()


def test_what_is_seen():
    env = Cutting(config(sheet=(10, 5), catalogue=((4, 3), (2, 2)), orders=3, known=2, form="flat", inventory=4))
    first, _ = env.reset(seed=1)
    orders = [np.array(order) / 10 for order in env.episode.shop.orders]
    assert first["order"].tolist() == pytest.approx(orders[0].tolist())
    assert first["upcoming"].tolist() == [pytest.approx([*orders[1], 1.0]), pytest.approx([*orders[2], 0.5])]
    assert first["pieces"].tolist() == [pytest.approx([1.0, 0.5, 1.0]), [0] * 3, [0] * 3, [0] * 3]
    assert first["orders_left"] == pytest.approx(1.0)
    second, reward, *_ = env.step(0)
    assert reward == -1
    assert second["pieces_present"].sum() > 1
    assert second["upcoming_present"].tolist() == [1, 0]
    assert not second["upcoming"][1].any()
    assert set(first) == set(env.observation_space.spaces)


def test_the_seed_decides_an_episode_and_random_instances_have_catalogues_of_their_own():
    env = Cutting(config(instances="random"))
    catalogues = [env.reset(seed=seed)[0]["catalogue"] for seed in (1, 2, 1)]
    assert (catalogues[0] == catalogues[2]).all()
    assert (catalogues[0] != catalogues[1]).any()


@pytest.mark.parametrize("masked", [True, False])
def test_the_structured_form_plays_the_flat_form_s_episodes(masked):
    """With any choices, possible or not: equal rewards, stock and observations after each decision."""
    both = config(form="masked" if masked else "flat", instances="random")
    flat, structured = Cutting(both), StructuredCutting(both, masked=masked)
    seen, _ = flat.reset(seed=7)
    observation = structured.reset(np.random.default_rng(np.random.PCG64(np.random.SeedSequence(7))))
    rng, over = np.random.default_rng(1), False
    while not over:
        assert structured.to_move == "select"
        assert structured.observation_spaces["select"].contains(observation)
        assert all((observation[key] == seen[key]).all() for key in seen if key != "action_mask")
        allowed = np.flatnonzero(seen["action_mask"] if masked else np.ones(flat.action_space.n))
        slot, way = divmod(int(rng.choice(allowed)), 4)
        if masked:
            assert (observation["action_mask"] == seen["action_mask"].reshape(-1, 4).any(1)).all()
        part, nothing, ended = structured.step(slot)
        assert (structured.to_move, nothing, ended) == ("cut", 0, False)
        assert structured.observation_spaces["cut"].contains(part)
        if masked:
            assert part["action_mask"].tolist() == seen["action_mask"].reshape(-1, 4)[slot].tolist()
            assert (part["piece"] == seen["pieces"][slot]).all()
        observation, got, over = structured.step(way)
        seen, reward, terminated, *_ = flat.step(4 * slot + way)
        assert (got, over) == (reward, terminated)
    assert structured.to_move == "select"
    assert tuple(structured.action_spaces) == ACTORS


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"catalogue": [[13, 6], [30, 2]]}, "an order of 30 by 2 does not fit the sheet of 24 by 16"),
        ({"catalogue": [[17, 17]]}, "17 by 17"),
        ({"catalogue": []}, "at least 1 item"),
        ({"catalogue": [[3]]}, "at least 2 items"),
        ({"sheet": [10, 4], "catalogue": [[2, 2]], "instances": "random"}, "at least 5 by 5"),
        ({"inventory": 1}, "greater than or equal to 2"),
        ({"form": "round"}, "'flat', 'masked', 'structured' or 'structured_masked'"),
    ],
)
def test_what_cannot_be_is_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        config(**values)


def test_the_picture_keeps_its_size_and_shows_every_colour():
    env = Cutting(config(), render_mode="rgb_array")
    env.reset(seed=1)
    before = env.render()
    for _ in range(25):
        env.step(0)
    after = env.render()
    assert before.shape == after.shape
    assert before.shape[0] % 2 == before.shape[1] % 2 == 0
    colours = {tuple(colour) for colour in after.reshape(-1, 3).tolist()}
    assert len(colours) >= 6
    assert Cutting(config()).render_mode is None


@pytest.mark.parametrize("form", ["structured", "structured_masked"])
def test_two_actors_decide_about_each_order(form):
    env = CuttingInTurns(config(form=form), render_mode="rgb_array")
    check_env(env, skip_render_check=True)
    observation, _ = env.reset(seed=3)
    rng, over, turns, total = np.random.default_rng(0), False, [], 0.0
    while not over:
        actor = ACTORS[observation["turn"]["actor"]]
        turns.append((actor, float(observation["turn"]["elapsed"])))
        mask = observation[actor].get("action_mask")
        choice = rng.choice(np.flatnonzero(mask)) if mask is not None else env.action_space[actor].sample()
        action = {"select": 0, "cut": 0, actor: choice}
        observation, reward, over, truncated, _ = env.step(action)
        assert not truncated
        total += reward
    assert [actor for actor, _ in turns] == ["select", "cut"] * 25
    assert [elapsed for _, elapsed in turns[1:]] == [0.0, *[1.0, 0.0] * 24]
    assert -25 <= total <= -1
    assert env.render().dtype == np.uint8


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_an_algorithm_trains_both_actors(tmp_path, algorithm):
    values = {
        "env.form": "structured_masked",
        "env.orders": 10,
        "env.inventory": 6,
        "model.name": "set_template",
        "model.pointers": {"select": "pieces"},
        "algorithm.n_rollout_steps": 16,
        "algorithm.num_envs": 2,
        "algorithm.epoch_length": 2,
        "evaluation.n_episodes": 2,
    }
    parts = {"env": {"name": "cutting_2d"}, "algorithm": algorithm, "overrides": values, "epochs": 1, "seed": 1}
    with RunContext(**parts, run_dir=tmp_path / "run", silent=True) as context:
        context.train()
        lines = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "train/actor/select/share" in lines
    assert "train/actor/cut/share" in lines


def test_pointers_name_the_kind_of_actor(tmp_path):
    values = {"env.form": "structured_masked", "model.name": "set_template", "model.pointers": {"cut": "pieces"}}
    context = RunContext(env={"name": "cutting_2d"}, overrides=values, run_dir=tmp_path / "run", silent=True)
    with pytest.raises(ConfigError, match=r"Discrete\(4\).*does not point"):
        context.train()
