"""Each algorithm of RLlib learns on Maze's models and environments, and the result is a policy of Maze."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
import torch
from gymnasium import Env, spaces
from maze_devkit.envs import SeededWalk
from maze_export.export import export_policy
from maze_rllib.parameters import titles
from typer.testing import CliRunner

from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.cli.main import app
from maze_core.run.context import RunContext
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.saved.checkpoint import read_checkpoint, write_checkpoint
from tests.killed import maze_until_killed
from tests.maze_rllib.conftest import SMALL

pytestmark = pytest.mark.slow  # each run starts RLlib

ONLINE = ["rllib-ppo", "rllib-appo", "rllib-impala", "rllib-dqn", "rllib-sac"]
OFFLINE = ["rllib-bc", "rllib-marwil"]
NATIVE = {"rllib-ppo": "ppo", "rllib-sac": "sac", "rllib-bc": "bc", "rllib-marwil": "a2c"}
"""An algorithm of Maze that has the same policy."""
ONE_OF_EACH_NETWORK = ["rllib-ppo", "rllib-dqn", "rllib-sac"]
"""The others learn the network of the first."""
WITH_ITS_OWN_NETWORK = ["rllib-cql", "rllib-dreamerv3", "rllib-iql", "rllib-tqc"]


class Nested(Env):
    """Nested Dict observations and Dict actions of every kind; better actions bring more reward."""

    def __init__(self):
        self.observation_space = spaces.Dict(
            {
                "position": spaces.Box(-1, 1, (3,), np.float32),
                "inner": spaces.Dict({"mode": spaces.Discrete(4, start=2), "flags": spaces.MultiBinary(2)}),
                "picture": spaces.Box(0, 255, (4,), np.uint8),
            }
        )
        self.action_space = spaces.Dict(
            {
                "choice": spaces.Discrete(3, start=1),
                "force": spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 10.0], np.float32)),
                "switches": spaces.MultiBinary(2),
                "gears": spaces.MultiDiscrete([2, 3]),
            }
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self._steps += 1
        reward = float(action["choice"] == 2) + float(action["force"][1]) / 10
        return self.observation_space.sample(), reward, self._steps >= 7, False, {}


class BoxAction(SeededWalk):
    """A walk whose action is a Box with bounds that are not symmetric."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32))

    def step(self, action):
        assert self.action_space.contains(action), action
        return super().step(action[0])


class Masked(SeededWalk):
    """A walk that forbids action 0 always, by a mask."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict({"x": self.observation_space, "action_mask": spaces.MultiBinary(3)})

    def observe(self):
        return {"x": super().observe(), "action_mask": np.array([0, 1, 1], np.int8)}

    def step(self, action):
        assert action != 0
        return super().step(action)


@pytest.fixture(scope="session")
def recordings(tmp_path_factory):
    """Recorded random behaviour in each environment."""
    folders = {}
    for env in ("CartPole-v1", Nested, "Pendulum-v1"):
        folder = tmp_path_factory.mktemp("recordings") / "demos"
        run_dir = tmp_path_factory.mktemp("runs") / "a2c"
        with RunContext(env=env, algorithm="a2c", seed=1, run_dir=run_dir, silent=True) as context:
            context.rollout(6, deterministic=False, record=folder, seed=5)
        folders[env] = str(folder)
    return folders


def last_metrics(context):
    lines = (context.run_dir / "metrics.jsonl").read_text().splitlines()
    return json.loads(lines[-1])


def parameters(context):
    return {name: leaf.clone() for name, leaf in context.policy.named_parameters()}


def changed(before, context):
    return {name for name, leaf in parameters(context).items() if not torch.equal(leaf, before[name])}


def check_learned(context, before, *, actor_only=False):
    moved = changed(before, context)
    wanted = {name for name in before if not actor_only or name.startswith(("encoder", "heads"))}
    assert wanted <= moved
    metrics = last_metrics(context)
    losses = {name: value for name, value in metrics.items() if name.startswith("loss/")}
    assert "loss/total" in losses
    assert all(math.isfinite(value) for value in losses.values()), losses
    assert math.isfinite(metrics["eval/return_mean"])


@pytest.mark.parametrize("algorithm", [*ONLINE, *OFFLINE])
def test_it_learns_goes_on_and_is_evaluated(small, recordings, tmp_path, algorithm):
    data = {"algorithm.dataset": recordings["CartPole-v1"]} if algorithm in OFFLINE else {}
    context = small(algorithm, "CartPole-v1", data)
    before = parameters(context)
    context.train()
    check_learned(context, before, actor_only=algorithm == "rllib-bc")
    metrics = last_metrics(context)
    assert (metrics["env_steps"] > 0) == (algorithm in ONLINE)
    context.close()
    run = context.run_dir
    with RunContext.reopen(run, {"algorithm.n_epochs": 2}) as resumed:
        resumed.train()
        assert resumed.run.epoch == 2
        assert resumed.run.env_steps >= 2 * metrics["env_steps"] * 0.9
        assert resumed.evaluate()["eval/episodes"] == 2
    if algorithm in NATIVE:
        check_begun_from(run, NATIVE[algorithm], tmp_path, data if NATIVE[algorithm] == "bc" else {})
    if algorithm in ONE_OF_EACH_NETWORK:
        check_viewed_and_exported(run, algorithm, tmp_path)


def check_begun_from(run, other, tmp_path, data):
    """An algorithm of Maze begins with the policy of a run."""
    with RunContext.open(run) as opened:
        trained = {name: leaf.clone() for name, leaf in opened.policy.state_dict().items()}
    values = {"callbacks.tensorboard": None, **data}
    parts = {"seed": 2, "run_dir": tmp_path / "on", "init_from": run, "silent": True, "preset": "none"}
    with RunContext("CartPole-v1", other, overrides=values, **parts) as following:
        begun = following.policy.state_dict()
        acting = [name for name in trained if name.startswith(("encoder.", "heads."))]
        assert acting
        assert all(torch.equal(begun[name], trained[name]) for name in acting)


def check_viewed_and_exported(run, algorithm, tmp_path):
    """Commands of other distributions take it for a run of Maze."""
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["view", str(run), "--episodes", "1", "--out", str(page), "--no-open"])
    assert done.exit_code == 0, done.output
    assert algorithm in page.read_text(encoding="utf-8")
    with RunContext.open(run) as opened:
        export_policy(opened.run, tmp_path / "policy.onnx")  # compares the actions of the file with the policy's


def test_a_run_that_kill_9_ended_goes_on_from_its_checkpoint(small, tmp_path):
    """Of an algorithm with a replay buffer; another process has to import RLlib, for seconds."""
    algorithm, run = "rllib-sac", tmp_path / "killed"
    values = {f"algorithm.{name}": value for name, value in SMALL[algorithm].items()}
    values |= {"evaluation.n_episodes": 1, "callbacks.tensorboard": None}
    sets = [part for path, value in values.items() for part in ("--set", f"{path}={json.dumps(value)}")]
    words = ["train", algorithm, "--env", "CartPole-v1", "--preset", "none", "--run-dir", str(run), *sets]
    maze_until_killed(words, "before", 2)
    with RunContext.reopen(run, {"algorithm.n_epochs": 2}) as resumed:
        steps = resumed.run.env_steps
        assert (resumed.run.epoch, steps > 0) == (1, True)
        resumed.train()
        assert resumed.run.epoch == 2
        assert resumed.run.env_steps > steps


def test_the_tests_run_every_algorithm_of_the_installed_rllib():
    assert {*ONLINE, *OFFLINE, *WITH_ITS_OWN_NETWORK} == {f"rllib-{title.lower()}" for title in titles()}


@pytest.mark.parametrize("algorithm", WITH_ITS_OWN_NETWORK)
def test_an_algorithm_without_a_module_of_maze_learns_with_rllibs_own_network(small, recordings, algorithm):
    data = {"algorithm.dataset": recordings["Pendulum-v1"]} if algorithm in ("rllib-cql", "rllib-iql") else {}
    context = small(algorithm, "Pendulum-v1", {**data, "algorithm.epoch_length": 2, "evaluation.n_episodes": 1})
    before = parameters(context)
    context.train()
    assert changed(before, context)
    assert math.isfinite(last_metrics(context)["eval/return_mean"])
    assert math.isfinite(evaluate_saved(context.run_dir, episodes=1, seed=1).metrics["eval/return_mean"])
    if algorithm != "rllib-dreamerv3":  # whose network is the largest; the others resume alike
        return
    state = context.run.algorithm.state()["rllib"]
    context.close()
    with RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 2}) as resumed:
        taken_up = resumed.run.algorithm._opened().state()
        assert all(torch.equal(taken_up["module"][name], leaf) for name, leaf in state["module"].items())


@pytest.mark.parametrize("algorithm", ["rllib-ppo", "rllib-appo", "rllib-impala"])
def test_dict_observations_and_dict_actions(small, algorithm):
    context = small(algorithm, Nested)
    before = parameters(context)
    context.train()
    check_learned(context, before)


@pytest.mark.parametrize("algorithm", ["rllib-marwil"])
def test_dict_recordings(small, recordings, algorithm):
    context = small(algorithm, Nested, {"algorithm.dataset": recordings[Nested]})
    before = parameters(context)
    context.train()
    check_learned(context, before, actor_only=algorithm == "rllib-bc")


@pytest.mark.parametrize("distribution", ["gaussian", "squashed_gaussian", "beta"])
def test_every_distribution_of_a_box(small, distribution):
    context = small("rllib-ppo", BoxAction, {"model.distribution": distribution})
    before = parameters(context)
    context.train()
    check_learned(context, before)


def test_sac_learns_on_a_box(small):
    context = small("rllib-sac", BoxAction)
    before = parameters(context)
    context.train()
    check_learned(context, before)


@pytest.mark.parametrize("algorithm", ["rllib-ppo", "rllib-dqn"])
def test_masks_hold(small, algorithm):
    context = small(algorithm, Masked)
    before = parameters(context)
    context.train()
    check_learned(context, before)


def test_dqn_without_a_critic_needs_no_dueling(small):
    with pytest.raises(ConfigError, match="dueling uses the critic"):
        small("rllib-dqn", SeededWalk, {"model.critic": "none"}).train()
    context = small("rllib-dqn", SeededWalk, {"model.critic": "none", "algorithm.dueling": False})
    before = parameters(context)
    context.train()
    check_learned(context, before)


@pytest.mark.parametrize("algorithm", ["rllib-dqn", "rllib-sac"])
def test_actions_that_do_not_fit_are_refused(small, algorithm):
    with pytest.raises(ConfigError, match=r"supports actions of .*Discrete, but this environment has"):
        small(algorithm, Nested).train()


def test_the_learner_and_the_policy_have_the_same_weights(learned):
    ours = learned.policy.state_dict()
    theirs = learned.run.algorithm._trainer.policy(ours)
    assert all(torch.equal(theirs[name], leaf) for name, leaf in ours.items())


def test_the_saved_model_gives_the_same_actions_in_plain_maze(learned):
    learner = learned.run.algorithm._trainer._algorithm.learner_group._learner
    module = learner.module["default_policy"].unwrapped()
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(64, 4)).astype(np.float32)
    theirs = module.forward_inference({"obs": {"observation": torch.from_numpy(observations)}})["actions"]["action"]
    with RunContext.open(learned.run_dir, "last") as opened:
        ours = [opened.compute_action(row) for row in observations]
        assert len(set(map(int, ours))) == 2
        assert ours == theirs.tolist()
        stored = opened.policy.state_dict()
    assert all(torch.equal(leaf, stored[name]) for name, leaf in learned.policy.state_dict().items())
    assert evaluate_saved(learned.run_dir, episodes=3, seed=1).metrics["eval/episodes"] == 3


def test_a_checkpoint_holds_no_pickle(learned):
    names = {path.name for path in (learned.run_dir / "checkpoints" / "last").iterdir()}
    assert names == {"model.safetensors", "state.json", "state.safetensors", "manifest.json"}


def _without_rate(saved):
    next(iter(saved["optimizers"].values()))["param_groups"][0]["lr"] = None


def _cut_moment(saved):
    moments = next(iter(saved["optimizers"].values()))["state"][0]
    moments["exp_avg"] = moments["exp_avg"][:1]


def _without_module(saved):
    saved["module"].popitem()


@pytest.mark.parametrize(("alter", "told"), [
    (_without_rate, "param_groups/0/lr should be a number from 0, but is null"),
    (_cut_moment, "state/0/exp_avg should be numbers of torch.float32 with shape"),
    (_without_module, "rllib/module should be a mapping with .*, but lacks it"),
    (dict.clear, "rllib should be a mapping with 'module', but lacks it"),
])  # fmt: skip
def test_an_altered_state_is_refused_by_its_name(learned, tmp_path, alter, told):
    copy = shutil.copytree(learned.run_dir, tmp_path / "copy")
    saved = read_checkpoint(copy / "checkpoints" / "last")
    alter(saved.state["algorithm"]["rllib"])
    write_checkpoint(copy / "checkpoints" / "last", saved)
    with RunContext.reopen(copy, {"algorithm.n_epochs": 2}) as resumed, pytest.raises(CheckpointError, match=told):
        resumed.train()


def test_a_resumed_run_takes_up_weights_optimizer_and_counters(learned, tmp_path):
    state, steps = learned.run.algorithm.state()["rllib"], learned.run.env_steps
    copy = shutil.copytree(learned.run_dir, tmp_path / "copy")
    with RunContext.reopen(copy, {"algorithm.n_epochs": 2, "algorithm.lr": 1e-12}) as resumed:
        assert resumed.run.env_steps == steps
        taken_up = resumed.run.algorithm._opened().state()
        for name, leaf in state["module"].items():
            assert torch.equal(taken_up["module"][name], leaf)
        (optimizer,), (saved,) = taken_up["optimizers"].values(), state["optimizers"].values()
        assert torch.equal(optimizer["state"][0]["exp_avg"], saved["state"][0]["exp_avg"])
        assert optimizer["state"][0]["step"] > 0
        assert torch.equal(
            taken_up["scalars"]["curr_kl_coeffs_per_module"], state["scalars"]["curr_kl_coeffs_per_module"]
        )


def test_it_goes_on_from_ppo_of_maze(small, tmp_path):
    few = {"algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 1, "evaluation.n_episodes": 1}
    parts = {"seed": 2, "run_dir": tmp_path / "before", "silent": True}
    with RunContext(env=SeededWalk, algorithm="ppo", overrides=few, **parts) as before:
        before.train(n_epochs=1)
        start = {name: leaf.clone() for name, leaf in before.policy.state_dict().items()}
    context = small("rllib-ppo", SeededWalk, {"algorithm.lr": 1e-12}, init_from=tmp_path / "before")
    context.train()
    saved = context.policy.state_dict()
    assert all(torch.allclose(saved[name], leaf, atol=1e-6) for name, leaf in start.items())
