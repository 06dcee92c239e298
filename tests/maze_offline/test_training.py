"""Offline runs: what they learn from, who learns when, what is refused, what a resumed run needs."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_devkit.probes import Workshop

from maze_core.base.errors import ConfigError, MazeError
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.recorded import BOX, LENGTHS, OBSERVATION

ALGORITHMS = ["cql", "iql", "td3_bc"]


def plain():
    return SpacesEnv(OBSERVATION, BOX)


def test_every_recorded_step_is_drawn_with_what_followed_it(offline, record):
    """Terminated episodes end in 0; truncated and interrupted ones are bootstrapped from their final observation."""
    folder = record(OBSERVATION, BOX)
    steps = offline("iql", plain, folder).run.algorithm.kept["steps"]
    assert len(steps) == sum(LENGTHS)
    batch = steps.sample(5000, 0.9)
    obs, actions, rewards = (
        np.load(folder / f"{name}.npy") for name in ("observations/observation", "actions/action", "rewards")
    )
    starts = np.cumsum([0, *LENGTHS])
    rows = {}
    for number, (start, length) in enumerate(zip(starts, LENGTHS, strict=False)):
        for step in range(length):
            row = start + step
            last = step == length - 1 and number % 3 == 0
            rows[obs[row + number].tobytes()] = obs[row + number + 1], actions[row], rewards[row], 0.0 if last else 0.9
    seen = set()
    for number in range(5000):
        key = batch.obs["observation"][number].numpy().tobytes()
        seen.add(key)
        following, action, reward, discount = rows[key]
        assert np.array_equal(batch.next_obs["observation"][number], following)
        assert np.array_equal(batch.actions["action"][number], action)
        assert batch.extra["reward"][number] == reward
        assert batch.extra["discount"][number].item() == pytest.approx(discount)
    assert seen == rows.keys()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_learning_takes_no_step(offline, record, algorithm):
    """Environments are reset and stepped in evaluations only."""
    taken = []

    class Counting(SpacesEnv):
        def step(self, action):
            taken.append(action)
            return super().step(action)

    context = offline(algorithm, lambda: Counting(OBSERVATION, BOX), record(OBSERVATION, BOX))
    run, found = context.run, []
    evaluate = run.evaluate
    run.evaluate = lambda *args, **kwargs: (found.append(len(taken)), evaluate(*args, **kwargs))[1]
    summary = context.train()
    assert found[0] == 0
    assert run.env_steps == 0
    assert summary.epochs == 2


def copies(*modules):
    return [[parameter.detach().clone() for parameter in module.parameters()] for module in modules]


@pytest.mark.parametrize("delay", [1, 3])
def test_policy_and_targets_move_after_every_few_updates_of_the_critics(offline, record, delay):
    context = offline("td3_bc", plain, record(OBSERVATION, BOX), {"algorithm.policy_delay": delay})
    run, plugin, seen = context.run, context.run.algorithm, []
    networks = (plugin.critics, run.policy, plugin.targets.critics.module, plugin.targets.policy.module)
    before = copies(*networks)
    count = run.count_update

    def count_update():
        nonlocal before
        after = copies(*networks)
        seen.append(
            [any(not a.equal(b) for a, b in zip(x, y, strict=True)) for x, y in zip(before, after, strict=True)]
        )
        before = after
        count()

    run.count_update = count_update
    context.train()
    assert seen == [[True, *[update % delay == 0] * 3] for update in range(1, 11)]


def test_the_target_policy_begins_as_the_policy_of_another_run(offline, record):
    folder = record(OBSERVATION, BOX)
    first = offline("td3_bc", plain, folder)
    first.train()
    second = offline("td3_bc", plain, folder, {"algorithm.policy_delay": 100}, init_from=first.run_dir)
    second.train(n_epochs=1)
    theirs = read_checkpoint(first.run_dir / "checkpoints" / "best").model
    target = second.run.algorithm.targets.policy.module.state_dict()
    assert all(torch.equal(target[name], theirs[name]) for name in target)


SPACES = {
    "discrete": spaces.Discrete(3, start=5),
    "choices": spaces.MultiDiscrete([2, 3]),
    "bits": spaces.MultiBinary(3),
    "unbounded": spaces.Box(-np.inf, np.inf, (1,), np.float32),
    "several": spaces.Dict({"a": BOX, "b": spaces.Discrete(4)}),
}


@pytest.mark.parametrize(("space", "model"), [*((each, "mlp") for each in SPACES), ("several", "template")])
def test_iql_takes_every_action_space(offline, record, space, model):
    space = SPACES[space]
    observation = spaces.Dict({"x": OBSERVATION, "y": spaces.Discrete(3)})
    act = None
    if space == SPACES["unbounded"]:
        act = lambda obs, rng: {"action": rng.normal(size=(len(obs["x"]) - 1, 1)).astype(np.float32)}  # noqa: E731
    values = {"model.name": model, "model.normalize_observations": True}
    if model == "template":
        values["model.hidden"] = [16]
    context = offline("iql", lambda: SpacesEnv(observation, space), record(observation, space, act=act), values)
    assert context.train().outcome == "finished"
    assert context.run.policy.normalizer.count == sum(LENGTHS)


@pytest.mark.parametrize("distribution", ["squashed_gaussian", "beta"])
def test_iql_takes_other_distributions(offline, record, distribution):
    values = {"model.distribution": distribution}
    assert offline("iql", plain, record(OBSERVATION, BOX), values).train().outcome == "finished"


def test_td3_bc_takes_a_dict_of_boxes(offline, record):
    space = spaces.Dict({"a": BOX, "b": spaces.Box(-3, 1, (2, 2), np.float32)})
    assert offline("td3_bc", lambda: SpacesEnv(OBSERVATION, space), record(OBSERVATION, space)).train().epochs == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_images_pass_encoders_of_the_critics_own(offline, record, algorithm):
    observation = Workshop().observation_space
    values = {"model.name": "template", "model.image_features": 8, "algorithm.epoch_length": 1}
    folder = record(observation, BOX, [3, 4])
    context = offline(algorithm, lambda: SpacesEnv(observation, BOX), folder, values)
    context.train()
    assert len(context.run.algorithm.critics.encoders) == 2


MASKED = spaces.Dict({"x": OBSERVATION, "action_mask": spaces.MultiBinary(3)})


def masked(choice):
    """A recording's `act` whose masks allow the last two of three choices, and which takes this one in step 4."""

    def act(obs, rng):
        obs["action_mask"][...] = [0, 1, 1]
        taken = np.full(len(obs["x"]) - 1, 2)
        taken[4:5] = choice
        return {"action": taken}

    return act


def test_a_recorded_action_that_its_mask_forbids_is_named(offline, record):
    class Free(SpacesEnv):
        def observe(self):
            return {**super().observe(), "action_mask": np.ones(3, np.int8)}

    def env():
        return Free(MASKED, spaces.Discrete(3))

    assert offline("iql", env, record(MASKED, spaces.Discrete(3), act=masked(1))).train().outcome == "finished"
    folder = record(MASKED, spaces.Discrete(3), [3, 6], masked(0))
    with pytest.raises(MazeError, match=r"demos1: the action of episode 1, step 4 is forbidden by its mask 'action_m"):
        offline("iql", env, folder).train()


@pytest.mark.parametrize("what", ["missing", "foreign", "other spaces", "damaged"])
def test_a_wrong_data_set_is_one_clear_error(offline, record, tmp_path, what):
    folder = record(OBSERVATION, BOX)
    other = spaces.Box(-1, 1, (3,), np.float32)
    if what == "missing":
        folder = tmp_path / "nowhere"
    if what == "foreign":
        folder = tmp_path / "other"
        folder.mkdir()
    if what == "damaged":
        (folder / "rewards.npy").write_bytes(b"")
    with pytest.raises(Exception, match=str(folder.name)) as caught:
        offline("iql", lambda: SpacesEnv(OBSERVATION, other if what == "other spaces" else BOX), folder).train()
    assert caught.value.exit_code == 2
    assert not list(tmp_path.glob("run*"))


@pytest.mark.parametrize(
    ("algorithm", "space", "values", "words"),
    [
        ("iql", BOX, {"steps": 1000}, "steps: iql learns from recorded data"),
        ("td3_bc", BOX, {"steps": 1000}, "steps: td3_bc learns from recorded data"),
        ("cql", BOX, {"steps": 1000}, "steps: cql learns from recorded data"),
        ("cql", BOX, {"model.distribution": "gaussian"}, "model.distribution: cql needs a differentiable sample"),
        ("cql", spaces.Discrete(3), {}, "cql supports actions of Box"),
        ("cql", BOX, {"algorithm.lagrange_gap": 0}, "algorithm.lagrange_gap"),
        ("iql", BOX, {"algorithm.expectile": 1.0}, "algorithm.expectile"),
        ("iql", BOX, {"algorithm.beta": -1}, "algorithm.beta"),
        ("iql", BOX, {"model.critic": "separate"}, "model.critic: iql does not use"),
        ("iql", BOX, {"model.memory": "gru"}, "model.memory"),
        ("td3_bc", BOX, {"model.distribution": "gaussian"}, "model.distribution: td3_bc needs a differentiable sample"),
        ("td3_bc", spaces.Discrete(3), {}, "td3_bc supports actions of Box"),
        ("td3_bc", SPACES["unbounded"], {}, "finite bounds"),
        ("td3_bc", BOX, {"algorithm.lr_schedule": "linear", "algorithm.n_epochs": 0}, "algorithm.lr_schedule"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(offline, record, tmp_path, algorithm, space, values, words):
    folder = record(OBSERVATION, BOX)
    with pytest.raises(ConfigError) as caught:
        offline(algorithm, lambda: SpacesEnv(OBSERVATION, space), folder, values).train()
    assert words in str(caught.value)
    assert not list(tmp_path.glob("run*"))


def test_equal_returns_have_no_range(offline, record):
    folder = record(OBSERVATION, BOX, [4, 4], reward=lambda obs, actions: np.ones(4))
    with pytest.raises(ConfigError, match=r"algorithm\.normalize_returns: the recorded episodes have equal returns"):
        offline("iql", plain, folder, {"algorithm.normalize_returns": True}).train()


class Throw(gymnasium.Env):
    """One step: hit the target shown, between -1 and 1, by a force from -5 to 5."""

    observation_space = spaces.Dict({"target": spaces.Box(-1, 1, (1,), np.float32)})
    action_space = spaces.Box(-5, 5, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._target = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return {"target": self._target}, {}

    def step(self, action):
        return {"target": self._target}, -float((action[0] / 5 - 0.8 * self._target[0]) ** 2), True, False, {}


@pytest.mark.parametrize("algorithm", ["iql", pytest.param("td3_bc", marks=pytest.mark.slow)])
def test_better_throws_than_the_recorded_ones_are_learnt(offline, record, algorithm):
    """The recorded forces are spread evenly: on average they miss by a third of the squared range, and more."""

    def act(obs, rng):
        obs["target"][...] = rng.uniform(-1, 1, obs["target"].shape)
        return {"action": rng.uniform(-5, 5, (1, 1)).astype(np.float32)}

    def reward(obs, actions):
        return -((actions["action"] / 5 - 0.8 * obs["target"][:-1]) ** 2)[:, 0]

    # Of these episodes of one step some say that they were cut: without a discount of 0 they would be bootstrapped.
    folder = record(Throw.observation_space, Throw.action_space, [1] * 600, act, reward)
    values = {
        "algorithm.epoch_length": 600, "algorithm.n_epochs": 1, "algorithm.batch_size": 64, "algorithm.lr": 0.003,
        "algorithm.gamma": 0.0, "model.hidden": [32, 32], "algorithm.critic_hidden": [32, 32],
        "evaluation.n_episodes": 50, **({"algorithm.beta": 30.0} if algorithm == "iql" else {}),
    }  # fmt: skip
    summary = offline(algorithm, Throw, folder, values).train()
    recorded = float(np.load(Path(folder) / "rewards.npy").mean())
    assert recorded < -0.4
    assert summary.final_evaluation["eval/return_mean"] > (-0.05 if algorithm == "iql" else -0.15)


LONG = {"algorithm.n_epochs": 3, "algorithm.epoch_length": 6, "algorithm.lr_schedule": "linear"}


@pytest.mark.parametrize(("algorithm", "at"), [("cql", 8), ("iql", 1), ("td3_bc", 11)])
def test_a_stopped_run_goes_on_bit_by_bit(offline, record, whole_state, assert_same, algorithm, at):
    values = LONG | {"model.normalize_observations": True}
    folder = record(OBSERVATION, BOX)
    stopped = offline(algorithm, plain, folder, values, callbacks={"bomb": bomb(at)})
    assert interrupted(stopped.train).outcome == "interrupted"
    stopped.close()
    second = offline(algorithm, plain, folder, values, callbacks={"bomb": bomb(0)})
    assert second.resume(stopped.run_dir).outcome == "finished"
    whole = offline(algorithm, plain, folder, values, callbacks={"bomb": bomb(0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    assert_same(whole_state(stopped.run_dir, "best"), whole_state(whole.run_dir, "best"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_other_data_cannot_be_slipped_in(offline, record, algorithm):
    folder = record(OBSERVATION, BOX)
    stopped = offline(algorithm, plain, folder, LONG, callbacks={"bomb": bomb(3)})
    interrupted(stopped.train)
    index = Path(folder) / "episodes.jsonl"
    index.write_bytes(b"".join(index.read_bytes().splitlines(keepends=True)[:-1]))
    (index.parent / "complete.json").unlink()
    with pytest.raises(ConfigError, match=f"no longer contains the episodes.*\n.*train {algorithm} --init-from"):
        offline(algorithm, plain, folder, LONG, callbacks={"bomb": bomb(0)}).resume(stopped.run_dir)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rewards_are_those_that_the_wrappers_make_of_them(offline, record, algorithm):
    folder = record(OBSERVATION, BOX)
    recorded = np.load(folder / "rewards.npy")
    for wrapper, expected in (
        ({"name": "scale_reward", "factor": -3.0, "shift": 1.0}, recorded * -3 + 1),
        ({"name": "clip_reward", "low": -0.1, "high": 0.1}, np.clip(recorded, -0.1, 0.1)),
    ):
        steps = offline(algorithm, plain, folder, wrappers=[wrapper]).run.algorithm.kept["steps"]
        drawn = set(steps.sample(3000, 0.9).extra["reward"].numpy().tolist())
        np.testing.assert_allclose(sorted(drawn), np.unique(expected.astype(np.float32)), rtol=1e-5, atol=1e-6)
        assert steps.returns.sum() == pytest.approx(expected.sum(), rel=1e-4)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_normalised_rewards_must_have_been_recorded(offline, record, algorithm):
    with pytest.raises(ConfigError, match=r"^algorithm\.dataset: this run normalises its rewards, and the recording"):
        offline(algorithm, plain, record(OBSERVATION, BOX), wrappers=["normalize_reward"]).train(1)
