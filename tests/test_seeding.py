"""The seeds of episodes: a pure function, whatever was asked before, in memory that does not grow."""

import pickle
import tracemalloc

import numpy as np
import pytest

from maze_core.base.seeding import EpisodeSeeds, Purpose, sequence

TRAINING = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)
STRIDING = {"seed": 5, "purpose": Purpose.EVAL_EPISODES, "path": (3,)}


def test_they_are_what_they_have_always_been():
    """Saved runs and recordings depend on them."""
    words = sequence(5, Purpose.TRAIN_EPISODES, 2, 1).generate_state(256)
    assert TRAINING(2, 256 + 17) == int(words[17]) >> 1
    words = sequence(5, Purpose.EVAL_EPISODES, 3, 0, 0).generate_state(256)
    assert EpisodeSeeds(**STRIDING, stride=4, first=10)(3, 20) == int(words[10 + 20 * 4 + 3]) >> 1


@pytest.mark.parametrize("stride", [0, 1, 3, 5000])
def test_the_order_in_which_they_are_asked_for_does_not_matter(stride):
    """Environments run ahead of each other, and a restored one asks for older episodes again."""
    rng = np.random.default_rng(0)
    asked = [(int(i), int(k)) for i, k in zip(rng.integers(3, size=400), rng.integers(9000, size=400), strict=True)]
    wanted = {each: EpisodeSeeds(**STRIDING, stride=stride)(*each) for each in asked}
    seeds = EpisodeSeeds(**STRIDING, stride=stride)
    for order in (asked, sorted(asked), sorted(asked, reverse=True)):
        assert [seeds(*each) for each in order] == [wanted[each] for each in order]
    copy = pickle.loads(pickle.dumps(seeds))
    assert {each: copy(*each) for each in asked} == wanted
    assert all(type(value) is int and 0 <= value < 2**31 for value in wanted.values())
    if stride == 0:
        assert len(set(wanted.values())) == len(wanted)


@pytest.mark.parametrize("stride", [0, 8])
def test_past_episodes_take_no_memory(stride):
    seeds = EpisodeSeeds(1, Purpose.TRAIN_EPISODES, stride=stride)
    tracemalloc.start()
    try:
        for episode in range(0, 40_000, 64):
            for env in range(8):
                seeds(env, episode)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert len(pickle.dumps(seeds)) < 20_000


def test_few_are_computed_anew_where_environments_end_episodes_at_different_speeds(monkeypatch):
    computed = []

    def counting(*path):
        computed.append(path)
        return sequence(*path)

    monkeypatch.setattr("maze_core.base.seeding.sequence", counting)
    seeds = EpisodeSeeds(1, Purpose.EVAL_EPISODES, stride=4)
    for step in range(1000):
        for env, speed in enumerate((1, 1, 2, 3)):
            for episode in range(step * speed // 8, (step + 1) * speed // 8):
                seeds(env, episode)
    assert len(computed) <= 2 * (4 * 1000 * 3 // 8) // 256


def test_the_streams_of_plugins_are_their_own():
    """The numbers of purposes are part of the file format, so that of plugins stays too."""
    assert Purpose.PLUGIN == 15
    streams = [sequence(5, purpose, *path) for purpose in Purpose for path in ((), (2,), (2, 0), (7,))]
    assert len({tuple(stream.generate_state(4)) for stream in streams}) == len(streams)
