"""ES as a whole: the same whoever evaluates, exact after any stop, learning, for every space."""

import json
import os
import signal
import warnings
from math import ceil

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_devkit.probes import Bandit, Doors, Workshop
from maze_es.config import ESConfig
from maze_es.evaluations import Evaluations
from torch import nn

from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins.config.assembly import assemble
from maze_core.run.episodes.saved_evaluation import evaluate_saved

JOBS = {
    "algorithm.n_rollouts_per_update": 11,
    "algorithm.pairs_per_job": 2,
    "algorithm.max_steps": 40,
    "model.normalize_observations": True,
}


def test_any_number_of_workers_on_any_runner_gives_the_same_bits(es, whole_state, assert_same):
    states = []
    for runner, workers in (("dev", 3), ("local", 2)):
        # Evaluation episodes are played side by side: their number there is the runner's business.
        overrides = {**JOBS, "algorithm.n_workers": workers, "evaluation.num_envs": 2}
        overrides["algorithm.deterministic"] = False
        context = es("CartPole-v1", overrides, runner=runner)
        context.train()
        states.append(whole_state(context.run_dir))
        context.close()
    for state in states[1:]:
        assert_same(states[0], state)


def test_workers_that_die_change_nothing_but_time(es, whole_state, assert_same):
    context = es("CartPole-v1", {**JOBS, "algorithm.n_epochs": 4, "algorithm.n_workers": 2}, runner="local")
    (pool,) = context.run.environments.pools
    context.train(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        os.kill(pool.pids[0], signal.SIGKILL)
        context.train(2)
    assert pool.restarts == 1
    quiet = es("CartPole-v1", {**JOBS, "algorithm.n_epochs": 4})
    quiet.train()
    assert_same(whole_state(context.run_dir), whole_state(quiet.run_dir))


def metrics(run_dir):
    """The epochs of metrics.jsonl without what depends on time."""
    file = run_dir / "metrics.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [{k: v for k, v in each.items() if k != "seconds" and not k.startswith("time/")} for each in records]


def test_two_halves_are_one_whole(es, whole_state, assert_same):
    runner = "local"
    overrides = {**JOBS, "algorithm.n_epochs": 4, "algorithm.optimizer": "sgd", "evaluation.num_envs": 2}
    half = es(SeededWalk, overrides, runner=runner)
    half.train(2)
    half.close()
    es(SeededWalk, overrides, runner=runner).resume(half.run_dir)
    whole = es(SeededWalk, overrides)
    whole.train()
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_a_seed_decides(es, whole_state, assert_same):
    runs = [es(seed=seed, overrides={"algorithm.n_epochs": 1}) for seed in (1, 1, 2)]
    for run in runs:
        run.train()
    first, same, other = (whole_state(run.run_dir) for run in runs)
    assert_same(first, same)
    assert first["model"] != other["model"]


def run_updates(context, count=1):
    """The sizes of the populations of some updates, as (pairs, steps)."""
    sizes = []
    for _ in range(count):
        results = context.run.algorithm.evaluate_population()
        sizes.append((sum(len(r.returns) for r in results), sum(int(r.lengths.sum()) for r in results)))
    return sizes


@pytest.mark.parametrize(("rollouts", "pairs"), [(1, 1), (2, 1), (7, 4), (10, 5)])
def test_at_least_the_configured_rollouts(es, rollouts, pairs):
    context = es(overrides={"algorithm.n_rollouts_per_update": rollouts, "algorithm.pairs_per_job": 3})
    assert [each[0] for each in run_updates(context, 2)] == [pairs, pairs]
    assert context.run.algorithm.state()["next_pair"] == 2 * pairs


def test_at_least_the_configured_steps(es):
    context = es(overrides={"algorithm.n_rollouts_per_update": 4, "algorithm.n_timesteps_per_update": 700})
    for pairs, steps in run_updates(context, 3):
        assert steps >= 700
        assert pairs > 2
        assert steps < 700 + 2 * steps / pairs * 6  # not far more than that either
    assert context.run.env_steps == context.run.progress.env_steps


def test_jobs_have_nearly_equal_sizes_and_lose_nothing(es):
    context = es(overrides={"algorithm.n_rollouts_per_update": 14, "algorithm.pairs_per_job": 3})
    sizes = [len(r.returns) for r in context.run.algorithm.evaluate_population()]
    assert sum(sizes) == 7
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == ceil(7 / 3)


def test_episodes_are_cut_at_max_steps(es):
    context = es(overrides={"algorithm.max_steps": 9, "algorithm.n_rollouts_per_update": 6})
    (result,) = context.run.algorithm.evaluate_population()
    assert result.lengths.max() == 9
    np.testing.assert_array_equal(result.returns, result.lengths)  # CartPole gives 1 for each step
    context.train()


def test_returns_and_steps_are_counted_truly(es, monkeypatch):
    context = es("CartPole-v1", {"algorithm.n_rollouts_per_update": 8, "algorithm.n_epochs": 1})
    seen, play = [], Evaluations.play
    monkeypatch.setattr(Evaluations, "play", lambda self, pairs: seen.append(play(self, pairs)) or seen[-1])
    context.train()
    returns = np.concatenate([r.returns.reshape(-1) for results in seen for r in results])
    lengths = np.concatenate([r.lengths.reshape(-1) for results in seen for r in results])
    (record,) = metrics(context.run_dir)
    assert record["train/return_mean"] == pytest.approx(returns.mean())
    assert record["train/steps"] == lengths.sum()
    assert context.run.env_steps == lengths.sum()
    assert len(returns) == 16


def test_members_get_what_their_parameters_get_alone(es):
    """Each return equals that of an ordinary evaluation of theta ± sigma * eps on the pair's episode."""
    context = es("CartPole-v1", {"algorithm.noise_stddev": 0.5, "algorithm.n_rollouts_per_update": 8})
    run, algorithm = context.run, context.run.algorithm
    (result,) = algorithm.evaluate_population()
    theta = algorithm.space.vector(run.policy)
    from maze_core.base.seeding import EpisodeSeeds, Purpose

    seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES, stride=1)
    env = gymnasium.make("CartPole-v1")
    directions = torch.from_numpy(algorithm.noise.rows(range(4)))
    for i in range(4):
        for side, sign in enumerate((1, -1)):
            with torch.no_grad():
                for name, value in algorithm.space.split(theta + sign * 0.5 * directions[i]).items():
                    run.policy.get_parameter(name).copy_(value)
            obs, _ = env.reset(seed=seeds(i, 0))
            total, over = 0.0, False
            while not over:
                action = context.compute_action(obs)
                obs, reward, terminated, truncated, _ = env.step(action)
                total, over = total + reward, terminated or truncated
            assert result.returns[i, side] == total


def test_both_of_a_pair_share_noise_of_actions(es):
    """With a perturbation of nothing, members that sample act alike, and unlike other pairs."""
    overrides = {"algorithm.noise_stddev": 1e-12, "algorithm.deterministic": False, "algorithm.pairs_per_job": 4}
    (result,) = es(SeededWalk, {**overrides, "algorithm.n_rollouts_per_update": 8}).run.algorithm.evaluate_population()
    np.testing.assert_array_equal(result.returns[:, 0], result.returns[:, 1])
    assert len(np.unique(result.returns)) == 4


def test_the_normaliser_sees_every_observation_acted_on(es):
    seen = []

    class Watched(SeededWalk):
        def reset(self, **options):
            self.last, info = super().reset(**options)
            return self.last, info

        def step(self, action):
            seen.append(np.float32(self.last))
            result = super().step(action)
            self.last = result[0]
            return result

    overrides = {**JOBS, "algorithm.n_epochs": 1, "algorithm.epoch_length": 3, "evaluation.n_episodes": 1}
    context = es(Watched, overrides)
    context.run.algorithm.epoch_metrics = lambda: seen.append(len(seen)) or {}  # where the evaluation begins
    seen.clear()
    context.train()
    rows = np.array(seen[: next(i for i, each in enumerate(seen) if isinstance(each, int))], np.float64)
    normalizer = context.policy.normalizer
    assert normalizer.count.item() == len(rows) == context.run.env_steps
    ((mean, std),) = normalizer.statistics().values()
    np.testing.assert_allclose(mean, rows.mean(0), rtol=1e-6)
    np.testing.assert_allclose(std, rows.std(0), rtol=1e-6)


ACTIONS = {
    "discrete": spaces.Discrete(3, start=-1),
    "multidiscrete": spaces.MultiDiscrete([3, 2], start=[1, 5]),
    "multibinary": spaces.MultiBinary(3),
    "box": spaces.Box(np.array([-3, 0], np.float32), np.array([-1, 7], np.float32)),
    "integers": spaces.Box(0, 9, (2,), np.int32),
    "nested": spaces.Dict(
        {"a": spaces.Discrete(2), "b": spaces.Tuple([spaces.Box(-1, 1, (2, 2)), spaces.Discrete(4)])}
    ),
}
OBSERVATIONS = spaces.Dict({"x": spaces.Box(-1, 1, (2, 2), np.float64), "n": spaces.MultiDiscrete([2, 3])})


@pytest.mark.parametrize(
    ("name", "deterministic"), [*((name, False) for name in ACTIONS), ("box", True), ("nested", True)]
)
def test_every_action_space(es, name, deterministic):
    overrides = {"algorithm.deterministic": deterministic, "algorithm.n_epochs": 1}
    context = es(lambda: SpacesEnv(OBSERVATIONS, ACTIONS[name]), overrides)  # insists on its action space
    summary = context.train()
    assert summary.final_evaluation["eval/return_mean"] == 5.0
    assert context.run.env_steps == 2 * 6 * 5


@pytest.mark.parametrize(("env", "model"), [(Workshop, "template"), (Doors, "mlp")])
def test_images_dicts_and_masks(es, env, model):
    assert es(env, {"algorithm.n_epochs": 1}, model=model).train().outcome == "finished"


def test_a_mask_without_a_choice_ends_the_run(es):
    with pytest.raises(RunError, match="'action_mask' forbids every choice of action 'action', member 1"):
        es(lambda: Doors(locked=True)).train()


def test_an_error_of_an_environment_names_it(es):
    from maze_devkit.envs import FailingEnv

    with pytest.raises(RunError, match="of the population raised ZeroDivisionError: the wheel came off"):
        es(lambda: FailingEnv("raise")).train()


def test_a_bandit_is_learned(es):
    """Action 0 of three pays; the first parameters choose another."""
    overrides = {"algorithm.n_rollouts_per_update": 20, "algorithm.n_epochs": 4, "algorithm.epoch_length": 10}
    context = es(Bandit, overrides | {"algorithm.noise_stddev": 0.1, "algorithm.step_size": 0.05}, seed=3)
    with torch.no_grad():
        context.policy.heads["action_head"].linear.bias.copy_(torch.tensor([-0.2, 0.1, 0.0]))
    assert context.evaluate()["eval/return_mean"] == 0.0
    assert context.train().final_evaluation["eval/return_mean"] == 1.0


class Aim(gymnasium.Env):
    """One step: minus the squared distance of the action from twice the observation."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-3, 3, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.target = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.target, {}

    def step(self, action):
        return self.target, -float((action - 2 * self.target).item() ** 2), True, False, {}


def test_a_continuous_action_is_learned(es):
    overrides = {"algorithm.n_rollouts_per_update": 40, "algorithm.n_epochs": 6, "algorithm.epoch_length": 20}
    more = {
        "algorithm.noise_stddev": 0.1,
        "evaluation.n_episodes": 50,
        "model.hidden": [8],
        "algorithm.l2_penalty": 0.0,
    }
    context = es(Aim, overrides | more)
    assert context.evaluate()["eval/return_mean"] < -1.0
    assert context.train().final_evaluation["eval/return_mean"] > -0.05


def test_early_stopping_works_here_too(es):
    class Flat(SeededWalk):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, 0.0, *rest

    summary = es(Flat, {"algorithm.n_epochs": 0, "callbacks.early_stopping.patience": 3}).train()
    assert (summary.outcome, summary.epochs) == ("stopped", 4)


def test_evaluation_episodes(es):
    def episodes(**overrides):
        overrides = {"evaluation.n_episodes": None, "algorithm.n_epochs": 1, **overrides}
        return es(SeededWalk, overrides).train().final_evaluation["eval/episodes"]

    assert episodes() == 10
    assert episodes(**{"algorithm.n_eval_rollouts": 3}) == 3
    assert episodes(**{"algorithm.n_eval_rollouts": 3, "evaluation.n_episodes": 5}) == 5


def test_evaluating_a_saved_run_with_another_number_of_episodes(es):
    context = es("CartPole-v1", {"evaluation.n_episodes": None, "algorithm.n_epochs": 1})
    context.train()
    assert evaluate_saved(context.run_dir).metrics["eval/episodes"] == 10
    assert evaluate_saved(context.run_dir, episodes=4).metrics["eval/episodes"] == 4


def test_defaults_are_those_of_the_documents():
    wanted = {
        "n_rollouts_per_update": 10,
        "n_timesteps_per_update": 0,
        "n_epochs": 0,
        "max_steps": 0,
        "optimizer": "adam",
        "step_size": 0.01,
        "momentum": 0.9,
        "l2_penalty": 0.005,
        "noise_stddev": 0.02,
        "n_eval_rollouts": 10,
        "policy_wrapper": None,
    }
    config = ESConfig()
    assert {name: getattr(config, name) for name in wanted} == wanted


def test_a_schedule_needs_an_end(es):
    with pytest.raises(ConfigError, match="needs to know when the run ends"):
        es(overrides={"algorithm.step_size": {"schedule": "linear", "to": 0}, "algorithm.n_epochs": 0}).run  # noqa: B018
    context = es(overrides={"algorithm.step_size": {"schedule": "linear", "to": 0}, "algorithm.n_epochs": 2})
    context.train()
    assert context.run.learner.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * (1 - 3 / 4))


@pytest.mark.parametrize("preset", ["CartPole-v1"])
def test_presets_are_valid(preset):
    assert assemble("es", preset).algorithm.name == "es"


def test_a_model_of_a_local_class_works_on_dev(es):
    class Local(nn.Module):
        def __init__(self, space):
            super().__init__()
            self.out_features = 4
            self.linear = nn.Linear(4, 4)

        def forward(self, obs):
            return torch.tanh(self.linear(obs["observation"]))

    assert es(model=Local).train().outcome == "finished"
