"""Events made from choices, masks and `info`: counted here once more from what the environment saw."""

from __future__ import annotations

from collections import Counter

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.turns import Carousel, Shelves

from maze_core.base.errors import ConfigError, RunError


class Spy(gymnasium.Wrapper):
    """Keeps what was chosen, by whom, with which mask."""

    seen: list = []  # noqa: RUF012 — of all environments

    def reset(self, **kwargs):
        self.last, info = self.env.reset(**kwargs)
        self.mine = []
        return self.last, info

    def step(self, action):
        self.mine.append((self.last, action))
        self.last, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:  # steps of episodes that evaluation does not count are left out
            Spy.seen += self.mine
        return self.last, reward, terminated, truncated, info


class Charged(gymnasium.Env):
    """Costs 1, 2, 3… for the steps of an episode of five."""

    observation_space, action_space = spaces.Box(0, 1, (1,)), spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), 1.0, self.steps == 5, False, {"cost": np.float32(self.steps), "at": self.steps}


@pytest.mark.parametrize(
    ("names", "costs", "said"), [(["cost"], [6.0, 9.0], ""), ([], [3.0, 5.0], ""), (["price"], [], "no number 'price'")]
)
def test_a_cost_is_added_up_over_skipped_steps_as_the_reward_is(quick, names, costs, said):
    context = quick(Charged, wrappers=[{"name": "step_skip", "steps": 3, "add_up": names}])
    env = context.run.env_builder("training")(0)
    env.reset(seed=1)
    if said:
        with pytest.raises(RunError, match=rf"{said} to add up, but \['at', 'cost'\]"):
            env.step(0)
        return
    found = [env.step(0) for _ in costs]
    assert [(reward, info["cost"], info["at"]) for _, reward, _, _, info in found] == [
        (3.0, costs[0], 3),
        (2.0, costs[1], 5),
    ]


def evaluated(quick, env, wrappers):
    small = {"model.hidden": [4], "evaluation.n_episodes": 1, "evaluation.num_envs": 1}
    context = quick(env, overrides={**small, "evaluation.deterministic": False}, wrappers=wrappers)
    _ = context.run  # before it begins, it tries out what a wrapper of others remembers, in episodes of its own
    Spy.seen = []
    return context.evaluate(), Spy.seen


class Maskable(gymnasium.Env):
    observation_space = spaces.Dict({"x": spaces.Box(0, 1, (1,)), "a_mask": spaces.MultiBinary(5)})
    action_space = spaces.Dict(
        {"a": spaces.MultiDiscrete([2, 3]), "b": spaces.MultiBinary(2), "c": spaces.Box(0, 1), "d": spaces.Discrete(40)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self._observation(), {}

    def step(self, action):
        self.left -= 1
        return self._observation(), 0.0, self.left == 0, False, {"distance": self.left, "note": "x"}

    def _observation(self):
        mask = self.np_random.integers(2, size=5).astype(np.int8)
        mask[[0, 3]] = 1
        return {"x": np.zeros(1, np.float32), "a_mask": mask}


def counts(metrics, place):
    found = {name.removeprefix(f"eval/{place}"): value for name, value in metrics.items()}
    return {name[:-10]: value for name, value in found.items() if name.endswith("/count_sum") and "eval" not in name}


def test_choices_and_masks_are_counted(quick):
    metrics, seen = evaluated(quick, Maskable, [Spy, "count_choices"])
    assert len(seen) == 5
    chosen, bits = (
        Counter(f"{member}/{action[key][member]}" for _, action in seen for member in (0, 1)) for key in "ab"
    )
    allowed = np.sum([before["a_mask"] for before, _ in seen], 0)
    assert counts(metrics, "event/choice/a/") == {f"{m}/{c}": chosen[f"{m}/{c}"] for m in (0, 1) for c in range(2 + m)}
    assert counts(metrics, "event/choice/b/") == {f"{m}/{c}": bits[f"{m}/{c}"] for m in (0, 1) for c in (0, 1)}
    names = ("0/0", "0/1", "1/0", "1/1", "1/2")
    assert counts(metrics, "event/allowed/a/") == dict(zip(names, allowed.tolist(), strict=True))
    assert metrics["eval/event/allowed/a/mean_mean"] == pytest.approx(allowed.sum() / len(seen))
    assert not any("choice/c" in name or "choice/d/" in name for name in metrics)


@pytest.mark.parametrize("env", [Shelves, Carousel])
def test_each_actor_has_its_own_counts(quick, env):
    metrics, seen = evaluated(quick, env, [Spy, "count_choices"])
    made = env()
    for number, name in enumerate(made.observation_space["turn"]["actor"].names):
        turns = [action for before, action in seen if int(before["turn"]["actor"]) == number]
        kind = made.observation_space["turn"]["actor"].actors[name]
        own = counts(metrics, f"actor/{name}/event/choice/{kind}/")
        if isinstance(made.action_space[kind], spaces.Discrete):
            expected = Counter(str(int(action[kind])) for action in turns)
            assert {choice: count for choice, count in own.items() if count} == expected
            assert turns or not own


def test_numbers_in_info_become_events(quick):
    metrics, _ = evaluated(quick, Maskable, [{"name": "info_events", "events": {"distance": ["sum", "min"], "x": []}}])
    assert metrics["eval/event/distance/sum_mean"] == 10
    assert metrics["eval/event/distance/min_mean"] == 0


def test_wrong_parameters_are_named(quick):
    with pytest.raises(ConfigError, match="episode must be a list of count"):
        quick(Maskable, wrappers=[{"name": "info_events", "events": {"distance": ["average"]}}]).train()
    with pytest.raises(RunError, match="value that is not a number: 'x'"):
        quick(Maskable, wrappers=[{"name": "info_events", "events": {"note": ["sum"]}}]).train()
