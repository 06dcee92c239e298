"""MuJoCo: what it warns of, and runs that stop in the middle of a robot's episode."""

import os
import signal

import pytest

from maze_core.envs.sources.gymnasium import tame_mujoco
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from tests.interrupted import interrupted

mujoco = pytest.importorskip("mujoco")

BALL = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"


def test_an_unstable_simulation_warns_as_python_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tame_mujoco()
    model = mujoco.MjModel.from_xml_string(BALL)
    data = mujoco.MjData(model)
    data.qpos[:] = float("nan")
    with pytest.warns(RuntimeWarning, match="MuJoCo: Nan, Inf or huge value in QPOS"):
        mujoco.mj_step(model, data)
    assert not list(tmp_path.iterdir())


class Stop(Plugin):
    """Asks the run to end at its third update."""

    calls = 0

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        Stop.calls += 1
        if Stop.calls == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return (yield)


@pytest.mark.parametrize("env", ["HalfCheetah-v5"])
def test_a_resumed_robot_goes_on_exactly(quick, whole_state, assert_same, monkeypatch, env):
    """One is in the middle of its episode, the other has had some; contacts and solver must come out the same."""
    values = {"evaluation.n_episodes": 1, "algorithm.n_rollout_steps": 20, "env.max_episode_steps": 150}
    parts = {"env": env, "algorithm": "a2c", "overrides": values}
    monkeypatch.setattr(Stop, "calls", 0)
    stopped = quick(**parts, callbacks={"stop": Stop})
    assert interrupted(stopped.train).outcome == "interrupted"
    stopped.close()
    resumed = quick(**parts, callbacks={"stop": Stop})
    assert resumed.resume(stopped.run_dir).outcome == "finished"
    monkeypatch.setattr(Stop, "calls", 3)
    whole = quick(**parts, callbacks={"stop": Stop})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
