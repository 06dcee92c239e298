"""Environments of other packages, and the advice about them, by the packages themselves, where they are installed."""

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("known_plugins")]
SMALL = (
    "--preset", "none", "--seed", "1", "-q", "--epochs", "1", "--epoch-length", "1", "--num-envs", "2",
    "--n-rollout-steps", "16", "--set", "evaluation.n_episodes=1", "--set", "evaluation.max_episode_steps=50",
)  # fmt: skip
TRAINS = {
    "bsuite": "bsuite:catch/0", "popgym": "popgym:popgym-RepeatPreviousEasy-v0", "JSSEnv": "JSSEnv:jss-v1",
    "mpe2": "mpe/simple_spread_v3", "rlcard": "leduc_holdem_v4", "gym": "gym:CartPole-v1",
    "grid2op": "grid2op:l2rpn_case14_sandbox --set env.kwargs.test=true", "envpool": "envpool:CartPole-v1",
    "crafter": "crafter:Env --model cnn", "highway_env": "highway_env:highway-fast-v0",
    "pymunk": "pistonball_v6 --model cnn --wrappers gray,resize --set wrappers.1.height=36 --set wrappers.1.width=36",
    "supersuit": "simple_spread_v3 --wrappers supersuit:frame_stack_v1",
    "mo_gymnasium": "mo_gymnasium:deep-sea-treasure-v0 --wrappers mo_gymnasium.wrappers:LinearReward"
    " --set wrappers.0.kwargs.weight=[0.5,0.5]",
}  # fmt: skip
ADVISED = {
    "crafter": ("crafter:Env", "--model cnn"),
    "or_gym": ("or_gym:Knapsack-v0", "--wrappers drop --set wrappers.0.keys=[avail_actions]"),
    "mo_gymnasium": ("mo_gymnasium:deep-sea-treasure-v0", "--wrappers scalarize --set wrappers.0.weights=[1,1]"),
    "grid2op": ("grid2op:l2rpn_case14_sandbox", "--set env.kwargs.test=true"),
}


def train(tmp_path, typed):
    return CliRunner().invoke(
        app, ["train", "ppo", "--env", *typed.split(), *SMALL, "--run-dir", str(tmp_path / "run")]
    )


@pytest.mark.parametrize("package", TRAINS)
def test_an_environment_trains(tmp_path, package):
    pytest.importorskip(package)
    result = train(tmp_path, TRAINS[package])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("package", ADVISED)
def test_the_advice_trains(tmp_path, package):
    pytest.importorskip(package)
    env, advice = ADVISED[package]
    refused = train(tmp_path, env)
    assert refused.exit_code == 2, refused.output
    assert advice in str(refused.output + str(refused.exception)).replace("'", "")
    if package == "or_gym":  # its mask forbids everything in a full knapsack, which the next error names
        advice = advice.replace("]", ",action_mask]")
    assert train(tmp_path / "again", f"{env} {advice}").exit_code == 0
