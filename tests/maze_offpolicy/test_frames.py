"""Stacks of frames in replay: sampled observations are those that were stored, and each frame takes memory once."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from gymnasium import spaces
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.frames import FrameStack, FrameStore, find_stacks
from maze_offpolicy.replay.log import ReplayLog

from maze_core.data.rollout import Trajectory
from maze_core.envs.spaces import LeafSpec, space_specs
from maze_core.envs.vector import StepResult

ACTION = spaces.Discrete(2)
LAYOUTS = {
    "gray, last": ((18, 19, 4), FrameStack(4, -1)),
    "gray, first": ((4, 18, 19), FrameStack(4, 0)),
    "rgb, last": ((18, 19, 6), FrameStack(2, -1)),
    "rgb, first": ((9, 18, 19), FrameStack(3, 0)),
    "own axis": ((3, 18, 19, 2), FrameStack(3, 0)),
}


class Films:
    """Environments that show their last frames, with episodes of random length; pictures are noise, or stand still."""

    def __init__(self, stack: FrameStack, shape, envs=3, padding="reset", seed=0, still=0.0) -> None:
        self.stack, self.spec, self.envs, self.padding = stack, LeafSpec(shape, np.dtype(np.uint8)), envs, padding
        self.rng, self.still = np.random.default_rng(seed), still
        self.windows = [self.fresh() for _ in range(envs)]
        self.ends = 0.2

    def frame(self):
        return self.rng.integers(256, size=self.stack.frame(self.spec).shape, dtype=np.uint8)

    def fresh(self):
        first = self.frame()
        other = first if self.padding == "reset" else np.zeros_like(first)
        return [other] * (self.stack.frames - 1) + [first]

    def obs(self, windows=None):
        windows = self.windows if windows is None else windows
        return {"film": self.stack.join(np.array(windows)).copy(), "speed": np.zeros(len(windows), np.float32)}

    def feed(self, buffer, steps, known=None):
        for _ in range(steps):
            before = self.obs()
            ended = np.flatnonzero(self.rng.random(self.envs) < self.ends)
            for i in range(self.envs):
                newest = self.windows[i][-1] if self.rng.random() < self.still else self.frame()
                self.windows[i] = [*self.windows[i][1:], newest]
            after, final = self.obs(), self.obs([self.windows[i] for i in ended]) if len(ended) else None
            for i in ended:
                self.windows[i] = self.fresh()
            flags = np.isin(np.arange(self.envs), ended)
            number = np.arange(self.envs, dtype=np.float32) + buffer.steps
            result = StepResult(number, flags, ~flags & False, np.ones(self.envs, bool), ended, final)
            buffer.step({"action": np.zeros(self.envs, np.int64)}, result, self.obs())
            if known is not None:
                known |= {float(n): (before["film"][i], after["film"][i]) for i, n in enumerate(number)}


def space(shape):
    return spaces.Dict({"film": spaces.Box(0, 255, shape, np.uint8), "speed": spaces.Box(-1, 1, (), np.float32)})


def assert_known(buffer, known, count=300):
    batch = buffer.sample(np.random.default_rng(1), count, 0.9)
    obs, after = batch.obs["film"].numpy(), batch.next_obs["film"].numpy()
    assert obs.dtype == np.uint8
    wanted = [known[number] for number in batch.extra["reward"].tolist()]
    np.testing.assert_array_equal(obs, [one for one, _ in wanted])
    np.testing.assert_array_equal(after, [two for _, two in wanted])


@pytest.mark.parametrize(
    ("layout", "padding", "capacity"),
    [(layout, *(("reset", 40), ("zero", 700))[number % 2]) for number, layout in enumerate(LAYOUTS)],
)
def test_sampled_stacks_are_those_that_were_stored(layout, padding, capacity):
    shape, stack = LAYOUTS[layout]
    films, known = Films(stack, shape, padding=padding, still=0.2), {}
    buffer = ReplayBuffer(space(shape), ACTION, capacity, stacks={"film": stack})
    buffer.begin(films.obs())
    for _ in range(5):
        films.feed(buffer, 40, known)
        assert_known(buffer, known)


@pytest.mark.parametrize("layout", ["rgb, last", "own axis"])
def test_each_frame_is_stored_once(layout):
    shape, stack = LAYOUTS[layout]
    films = Films(stack, shape)
    films.ends = 0.02
    buffer = ReplayBuffer(space(shape), ACTION, 1200, stacks={"film": stack})
    whole = ReplayBuffer(space(shape), ACTION, 1200)
    buffer.begin(films.obs())
    films.feed(buffer, 750)
    assert len(buffer) == 1200
    assert buffer.frames["film"].rows <= buffer.rows + 2  # one for each observation
    assert buffer.nbytes < whole.nbytes * (1.25 / stack.frames + 0.05)


def test_a_leaf_that_is_no_stack_after_all_is_stored_whole():
    shape, stack = LAYOUTS["gray, last"]
    films, known = Films(stack, shape), {}
    films.ends = 1.0  # every observation begins an episode, and
    films.fresh = lambda: [films.frame() for _ in range(4)]  # none repeats a frame
    films.windows = [films.fresh() for _ in range(3)]
    buffer = ReplayBuffer(space(shape), ACTION, 100, stacks={"film": stack})
    buffer.begin(films.obs())
    before = buffer.nbytes
    films.feed(buffer, 300, known)
    assert_known(buffer, known)
    assert 1.5 * before < buffer.nbytes < 1.3 * ReplayBuffer(space(shape), ACTION, 100).nbytes


def test_an_episode_that_goes_on_after_its_end_repeats_its_frames():
    shape, stack = LAYOUTS["gray, first"]
    films = Films(stack, shape, envs=1)
    films.fresh = lambda: films.windows[0] if hasattr(films, "windows") else [films.frame()] * 4
    buffer = ReplayBuffer(space(shape), ACTION, 100, stacks={"film": stack})
    buffer.begin(films.obs())
    films.feed(buffer, 50)
    assert buffer.frames["film"].rows < 2 * 50


def test_recorded_episodes_are_stored_as_stacks_too():
    shape, stack = LAYOUTS["gray, last"]
    films = Films(stack, shape, envs=1)
    films.ends = 0.0
    buffer = ReplayBuffer(space(shape), ACTION, 500, stacks={"film": stack})
    known = {}
    for episode in range(4):
        shown = [films.obs()]
        for _ in range(100):
            films.windows[0] = [*films.windows[0][1:], films.frame()]
            shown.append(films.obs())
        films.windows = [films.fresh()]
        tree = {key: np.concatenate([obs[key] for obs in shown]) for key in shown[0]}
        rewards = np.arange(100, dtype=np.float32) + 100 * episode
        known |= {float(r): (tree["film"][i], tree["film"][i + 1]) for i, r in enumerate(rewards)}
        buffer.add_episode(Trajectory(tree, {"action": np.zeros(100, np.int64)}, rewards, True, False, 0.0))
    assert_known(buffer, known)
    assert buffer.frames["film"].rows == 4 * 101


@pytest.mark.parametrize(("steps", "padding"), [(1, "zero"), (20, "reset"), (40, "zero"), (300, "reset")])
def test_stacks_are_found_again_in_a_checkpoint_and_go_on_alike(tmp_path, steps, padding):
    shape, stack = LAYOUTS["rgb, last"]
    films = Films(stack, shape, padding=padding)
    buffer = ReplayBuffer(space(shape), ACTION, 90, stacks={"film": stack})
    log = ReplayLog(tmp_path / "replay", buffer)
    buffer.begin(films.obs())
    for _ in range(3):
        films.feed(buffer, steps)
        state = json.loads(json.dumps(log.commit()))
    at, rng = films.obs(), films.rng.bit_generator.state
    windows = list(films.windows)
    films.feed(buffer, 30)
    again = ReplayBuffer(space(shape), ACTION, 90, stacks={"film": stack})
    ReplayLog(tmp_path / "replay", again).load(state)
    again.begin(at)
    films.rng.bit_generator.state, films.windows = rng, windows
    films.feed(again, 30)
    one, two = (each.sample(np.random.default_rng(3), 400, 0.9, n_step=3) for each in (buffer, again))
    for key in ("film", "speed"):
        np.testing.assert_array_equal(one.obs[key], two.obs[key])
        np.testing.assert_array_equal(one.next_obs[key], two.next_obs[key])
    # Whole stacks would take twice as much; every frame is written once.
    written = sum(path.stat().st_size for path in (tmp_path / "replay").glob("0-*.rows"))
    assert written <= (buffer.frames["film"].rows) * stack.frame(films.spec).nbytes


def test_a_checkpoint_fits_into_a_smaller_buffer(tmp_path):
    shape, stack = LAYOUTS["gray, last"]
    films, known = Films(stack, shape), {}
    buffer = ReplayBuffer(space(shape), ACTION, 400, stacks={"film": stack})
    buffer.begin(films.obs())
    films.feed(buffer, 300, known)
    state = ReplayLog(tmp_path / "replay", buffer).commit()
    for capacity in (60, 1000):
        other = ReplayBuffer(space(shape), ACTION, capacity, stacks={"film": stack})
        ReplayLog(tmp_path / "replay", other).load(state)
        other.begin(films.obs())
        assert_known(other, known)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_checkpoint_decides_how_observations_are_stored(tmp_path, stacked):
    shape, stack = LAYOUTS["gray, last"]
    layouts = [{"film": stack}, {}]
    films, known = Films(stack, shape), {}
    buffer = ReplayBuffer(space(shape), ACTION, 400, stacks=layouts[not stacked])
    buffer.begin(films.obs())
    films.feed(buffer, 100, known)
    state = ReplayLog(tmp_path / "replay", buffer).commit()
    other = ReplayBuffer(space(shape), ACTION, 400, stacks=layouts[stacked])
    ReplayLog(tmp_path / "replay", other).load(state)
    assert set(other.frames) == ({"film"} if stacked else set())
    other.begin(films.obs())
    assert_known(other, known)


def test_open_rows_with_other_stacks_than_the_rest_are_damage(tmp_path):
    shape, stack = LAYOUTS["gray, last"]
    buffer = ReplayBuffer(space(shape), ACTION, 400, stacks={"film": stack})
    buffer.begin(Films(stack, shape).obs())
    state = ReplayLog(tmp_path / "replay", buffer).commit()
    for shown in ({}, {**state["open_frames"], "other": []}):
        with pytest.raises(ValueError, match="its open rows have other stacks"):
            ReplayLog(tmp_path / "replay", buffer).load({**state, "open_frames": shown})


def test_files_of_frames_are_deleted_with_those_of_rows(tmp_path):
    shape, stack = LAYOUTS["gray, last"]
    films = Films(stack, shape)
    buffer = ReplayBuffer(space(shape), ACTION, 80, stacks={"film": stack})
    log = ReplayLog(tmp_path / "replay", buffer)
    buffer.begin(films.obs())
    for _ in range(12):
        films.feed(buffer, 30)
        state = log.commit()
    log.prune([json.dumps(state)])
    kept = {path.name for path in (tmp_path / "replay").iterdir()}
    frames = {segment["file"] for segment in state["frames"]["film"]["segments"]}
    assert kept == frames | {segment["file"] for segment in state["segments"]}
    assert all(name.startswith("0-") for name in frames)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("padding", ["reset", "zero"])
def test_stacks_are_recognised(layout, padding):
    shape, stack = LAYOUTS[layout]
    films = Films(stack, shape, envs=1, padding=padding, still=0.5)
    seen = []
    for _ in range(10):
        seen.append({key: leaf[0] for key, leaf in films.obs().items()})
        newest = films.windows[0][-1] if films.rng.random() < 0.5 else films.frame()
        films.windows[0] = [*films.windows[0][1:], newest]
    assert find_stacks(space_specs(space(shape), "observation"), seen) == {"film": stack}


def _moving_square(channels, step):
    picture = np.zeros((32, 32, channels), np.uint8)
    picture[step : step + 6, 5:9] = 200
    return picture


NO_STACKS = {
    "noise": lambda t: np.random.default_rng(t).integers(256, size=(20, 20, 4), dtype=np.uint8),
    "gray in three channels": lambda t: _moving_square(3, t),
    "one channel": lambda t: _moving_square(1, t),
    "nothing moves": lambda t: _moving_square(4, 0),
    "newest first": lambda t: np.stack([_moving_square(1, max(t - k, 0))[..., 0] for k in range(4)], -1),
    "small": lambda t: np.array([t, t + 1, t + 2], np.uint8)[:, None, None],
}


@pytest.mark.parametrize("name", NO_STACKS)
def test_other_pictures_are_not_taken_for_stacks(name):
    seen = [{"observation": NO_STACKS[name](t)} for t in range(12)]
    specs = {"observation": LeafSpec(seen[0]["observation"].shape, np.dtype(np.uint8))}
    assert find_stacks(specs, seen) == {}


def test_stacks_join_what_they_split():
    rng = np.random.default_rng(0)
    for shape, stack in LAYOUTS.values():
        leaf = rng.integers(256, size=(5, *shape), dtype=np.uint8)
        np.testing.assert_array_equal(stack.join(stack.split(leaf)), leaf)
        np.testing.assert_array_equal(stack.join(stack.split(leaf).copy()), leaf)
    store = FrameStore(stack, LeafSpec(shape, np.dtype(np.uint8)), np.zeros((9, stack.frames), np.int64))
    assert store.take(store.add(leaf, None)).tobytes() == leaf.tobytes()


CASES = [
    (1, 400, 0.1, 0.0, "reset"),  # never full
    (1, 40, 0.5, 0.0, "zero"),  # full, short episodes
    (2, 50, 0.2, 0.9, "reset"),  # pictures that stand still
    (3, 40, 0.0, 0.0, "zero"),  # one long episode each
    (3, 61, 1.0, 0.3, "reset"),  # every step ends an episode
    (5, 90, 0.3, 0.1, "zero"),
]
"""Environments, rows, share of steps that end an episode, share of pictures that repeat, and what begins an episode."""


class Recording:
    """A buffer with frames, what it is fed, and its log."""

    def __init__(self, folder, case, alpha, state=None, films=None) -> None:
        envs, capacity, ends, still, padding = case
        shape, stack = LAYOUTS["gray, last"]
        self.films = films or Films(stack, shape, envs, padding, still=still)
        self.films.ends = ends
        self.buffer = ReplayBuffer(space(shape), ACTION, capacity, stacks={"film": stack}, priority_exponent=alpha)
        self.log = ReplayLog(folder, self.buffer)
        if state is not None:
            self.log.load(state["rows"])
            self.buffer.load_open_state(state["open"])
        self.buffer.begin(self.films.obs())

    def step(self):
        self.films.feed(self.buffer, 1)
        if self.buffer.priorities is not None:
            rng = np.random.default_rng(self.buffer.steps)
            slots = self.buffer.sample(rng, 4, 0.9).extra["slot"].numpy()
            self.buffer.priorities.update(slots, rng.random(4))

    def saved(self):
        """A checkpoint: the state as text has it, but for priorities, and where the environments stand."""
        rows = json.loads(json.dumps(self.log.commit()))
        return {"rows": rows, "open": copy.deepcopy(self.buffer.open_state())}, copy.deepcopy(self.films)

    def everything(self):
        """All that the buffer holds and knows, frames in use included, and what is sampled."""
        buffer, store = self.buffer, self.buffer.frames["film"]
        rows = buffer.read(max(0, buffer.rows - buffer.capacity), len(buffer))
        batch = buffer.sample(np.random.default_rng(3), 60, 0.9, n_step=3, beta=0.5)
        leaves = [leaf for tree in (batch.obs, batch.next_obs, batch.extra) for leaf in tree.values()]
        for name, column in rows.items():  # a row without a step has no action and no reward
            if not name.startswith("obs/"):
                column[rows["ahead"] == 0] = 0
        return {
            "counters": (buffer.rows, buffer.steps, buffer.open, store.rows, store.ring()),
            "rows": {name: column.tobytes() for name, column in rows.items()},
            "frames": store.take(rows["obs/film"]).tobytes(),
            "batch": [leaf.numpy().tobytes() for leaf in leaves],
        }


@pytest.mark.parametrize(("case", "alpha"), [(case, (None, 0.6)[number % 2]) for number, case in enumerate(CASES)])
def test_a_buffer_that_is_cut_at_any_step_goes_on_as_one_without_a_cut(tmp_path, case, alpha):
    """Bit by bit, at the cut and nine steps later."""
    whole = Recording(tmp_path / "replay", case, alpha)
    known, cuts = {}, {}
    for t in range(1, 56):
        whole.step()
        known[t] = whole.everything()
        if t < 5 or t % 7 == 0:
            cuts[t] = whole.saved()
    for t, (state, films) in cuts.items():
        again = Recording(tmp_path / "replay", case, alpha, state, films)
        assert again.everything() == known[t]
        later = min(t + 9, len(known))
        for _ in range(later - t):
            again.step()
        assert again.everything() == known[later]


@pytest.mark.parametrize("case", [*CASES][::2])
def test_a_buffer_that_is_cut_after_every_step_ends_as_one_without_a_cut(tmp_path, case):
    whole, again = (Recording(tmp_path / name / "replay", case, 0.6) for name in ("one", "two"))
    for _ in range(40):
        whole.step()
        again.step()
        again = Recording(tmp_path / "two" / "replay", case, 0.6, *again.saved())
    assert again.everything() == whole.everything()


@pytest.mark.parametrize("changed", ["other pictures", "fewer environments", "a larger buffer"])
def test_open_rows_that_do_not_fit_the_checkpoint_are_stored_anew(tmp_path, changed):
    case = CASES[-1]
    whole = Recording(tmp_path / "replay", case, None)
    for _ in range(30):
        whole.step()
    state, films = whole.saved()
    if changed == "other pictures":
        films.windows[1:3] = [films.fresh(), films.fresh()]
    elif changed == "fewer environments":
        films.windows, films.envs = films.windows[:2], 2
    else:
        case = (5, 900, *case[2:])
    again, known = Recording(tmp_path / "replay", case, None, state, films), {}
    films.feed(again.buffer, 40, known)
    batch = again.buffer.sample(np.random.default_rng(1), 900, 0.9)
    newest = [(i, number) for i, number in enumerate(batch.extra["reward"].tolist()) if number in known]
    assert len(newest) > 50
    for i, number in newest:
        np.testing.assert_array_equal(batch.obs["film"][i], known[number][0])
        np.testing.assert_array_equal(batch.next_obs["film"][i], known[number][1])
