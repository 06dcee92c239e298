"""The zoo: its archives are whole, small and of many kinds, and each acts as its card says."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import maze_zoo
import pytest
from maze_publish import manifest
from maze_publish.address import parse
from maze_publish.opening import card_of, find, imports_of
from maze_publish.policies_at_hand import policies

from maze_core.run.episodes.saved_evaluation import evaluate_saved

ARCHIVES = sorted(maze_zoo.folder().glob("*.zip"))
NAMES = [archive.stem for archive in ARCHIVES]


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("zoo_rows")


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_whole_and_its_card_says_how_it_was_made(name, rows):
    policy = find(parse(f"zoo:{name}"))
    contents = policy.contents()
    card = card_of(maze_zoo.folder() / f"{name}.zip")
    assert card.name == name
    assert card.command == f"maze train {rows.ROWS[name]} --seed {rows.SEED}"
    assert name.startswith(card.algorithm)
    assert card.score.low <= card.score.mean <= card.score.high
    assert card.imports == imports_of(contents[manifest.CONFIG])


def test_there_are_many_kinds_and_all_are_small():
    cards = {name: card_of(file) for name, file in policies().items()}
    assert list(cards) == NAMES
    assert sum(archive.stat().st_size for archive in ARCHIVES) <= 10_000_000
    assert len({card.algorithm for card in cards.values()}) >= 12
    assert any(card.memory for card in cards.values())
    assert any(card.agents for card in cards.values())
    assert any(name.startswith("constraint/") for card in cards.values() for name in card.score.others)


def test_the_zoo_requires_what_its_policies_were_trained_with():
    text = (Path(__file__).parents[2] / "plugins" / "maze_zoo" / "pyproject.toml").read_text(encoding="utf-8")
    required = {re.split(r"[<>\[]", each)[0] for each in tomllib.loads(text)["project"]["dependencies"]}
    needed = {name for file in ARCHIVES for name in card_of(file).versions if name.startswith("maze-")}
    assert required == needed - {"maze-tensorboard"} | {
        "maze-publish",
        "maze-devkit",
    }  # its inventory is an environment


ONE_OF_EACH_KIND = (
    "a2c-MountainCarContinuous-v0",
    "apex-CartPole-v1",
    "ppo-MiniGrid-Empty-5x5-v0",
    "ppo-cutting_2d",
    "ppo-gru-CartPole-v1",
    "ppo-shop",
    "sac-Pendulum-v1",
    "vdn-simple_spread_v3",
)
"""Numbers and choices, wrappers, a memory, a constraint, several agents. `make zoo` evaluates all."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_a_policy_acts_as_its_card_says(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    score = card_of(maze_zoo.folder() / f"{name}.zip").score
    found = evaluate_saved(
        Path(f"zoo:{name}"), episodes=score.episodes, seed=score.seed, deterministic=score.deterministic
    )
    slack = 0.01 * abs(score.mean)
    assert score.low - slack <= found.metrics["eval/return_mean"] <= score.high + slack
