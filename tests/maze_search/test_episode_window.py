"""The window of finished episodes, and the steps of a rollout as transitions."""

import numpy as np
import pytest
import torch
from maze_imitation.rollout_steps import rollout_steps
from maze_search.episode_window import EpisodeWindow

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import StateError, check_state, form_of
from maze_core.data.batch import Batch, joined
from maze_core.data.rollout import Rollout
from maze_core.envs.spaces import LeafSpec

COLUMNS = {"number": LeafSpec((), np.dtype(np.int64)), "pair": LeafSpec((2,), np.dtype(np.float32))}


def row(number):
    return {"number": np.array(number), "pair": np.full(2, number, np.float32)}


def held(window):
    return sorted(set(window.sample(200, np.random.default_rng(0))["number"].tolist()))


def test_rows_wait_until_their_episode_is_over_and_the_oldest_go_first():
    window = EpisodeWindow(COLUMNS, 3, 2, "algorithm.size", "rows")
    for number in range(4):
        window.waiting[number % 2].append(row(number))
    assert len(window) == 0
    for each in window.finish(1):
        window.put(each)
    assert (len(window), held(window), window.waiting[1]) == (2, [1, 3], [])
    for number in (5, 7):
        window.put(row(number))
    assert (len(window), held(window)) == (3, [3, 5, 7])
    pair = window.sample(4, np.random.default_rng(1))["pair"]
    assert pair.shape == (4, 2)
    window.forget([0])
    assert window.waiting == [[], []]


@pytest.mark.parametrize("put", [0, 2, 7])
def test_a_restored_window_is_the_same(put):
    window, again = (EpisodeWindow(COLUMNS, 3, 2, "algorithm.size", "rows") for _ in range(2))
    for number in range(put):
        window.put(row(number))
        window.waiting[0].append(row(10 + number))
    again.load_state(window.state())
    for each in (window, again):
        each.put(row(20))
    assert held(again) == held(window)
    waiting = [[[each["number"].item() for each in rows] for rows in which.waiting] for which in (window, again)]
    assert waiting == [[[*range(10, 10 + put)], []]] * 2
    assert again.nbytes == window.nbytes == 3 * 16


@pytest.mark.parametrize("part", ["window", "open"])
@pytest.mark.parametrize("leaf", ["x", np.zeros(2), np.zeros((3, 3), np.float32)])
def test_rows_of_other_shapes_are_refused(part, leaf):
    window = EpisodeWindow(COLUMNS, 3, 2, "algorithm.size", "rows")
    for number in range(2):
        window.put(row(number))
        window.waiting[0].append(row(number))
    state = window.state()
    form = form_of(EpisodeWindow(COLUMNS, 3, 2, "algorithm.size", "rows").state)
    check_state(state, form)
    with pytest.raises(StateError, match=rf"^{part}/pair should be numbers of float32 with shape \(any, 2\)"):
        check_state({**state, part: {**state[part], "pair": leaf}}, form)


@pytest.mark.parametrize("put", [2, 4, 7])
@pytest.mark.parametrize(("before", "after"), [(3, 5), (5, 3), (4, 2), (2, 9)])
def test_a_window_of_another_capacity_keeps_the_newest_rows(put, before, after):
    window, again = (EpisodeWindow(COLUMNS, size, 2, "algorithm.size", "rows") for size in (before, after))
    for number in range(put):
        window.put(row(number))
    again.load_state(window.state())
    kept = [*range(max(0, put - min(before, after)), put)]
    assert (len(again), held(again)) == (len(kept), kept)
    again.put(row(20))
    assert held(again) == [*kept, 20][-after:]


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r"algorithm\.size: .*rows"):
        EpisodeWindow(COLUMNS, 10**15, 2, "algorithm.size", "rows")


def test_the_steps_of_a_rollout_are_transitions():
    obs = {"observation": np.arange(8, dtype=np.float32).reshape(4, 2)}
    rollout = Rollout.over(obs, {"action": np.arange(6).reshape(3, 2)}, valid=True)
    rollout.terminated[0, 1] = rollout.truncated[1, 0] = True
    rollout.valid[1, 1] = False  # the filler after an end
    rollout.truncations.append((1, np.array([0]), {"observation": np.array([99.0], np.float32)}))
    steps = rollout_steps(rollout, 0.5, torch.device("cpu"))
    assert steps.obs["observation"].tolist() == [0, 1, 2, 4, 5]
    assert steps.actions["action"].tolist() == [0, 1, 2, 4, 5]
    assert steps.next_obs["observation"].tolist() == [2, 3, 99, 6, 7]
    assert steps.extra["discount"].tolist() == [0.5, 0, 0.5, 0.5, 0.5]
    assert obs["observation"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_joined_batches_have_the_rows_of_all_and_the_leaves_that_all_have():
    first = Batch({"a": torch.ones(2)}, {}, {"x": torch.zeros(2), "y": torch.zeros(2)})
    second = Batch({"a": torch.zeros(1)}, {}, {"x": torch.ones(1)})
    both = joined([first, second])
    assert (len(both), both.obs["a"].tolist(), list(both.extra)) == (3, [1, 1, 0], ["x"])
