"""A run that cannot work leaves no folder, so that the same command may be repeated, and advises no resume."""

from itertools import product

import numpy as np
import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError, LostError, MazeError, RunError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

OVERRIDES = {"evaluation.n_episodes": 0}


class Broken(SeededWalk):
    """A walk that breaks in training; `count` is of the process."""

    way, count = "", 0

    def reset(self, **options):
        type(self).count += self.way == "reset"
        if self.count > 6:
            raise OSError("no power")
        return super().reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.way == "raise":
            raise ZeroDivisionError("the wheel came off")
        reward = {"vector": np.ones(2), "infinite": float("inf"), "text": "one"}.get(self.way, reward)
        observation = {"shape": np.zeros(7), "nothing": None}.get(self.way, observation)
        return observation, reward, terminated, truncated, None if self.way == "info" else info


def acting(hook, error):
    """A callback that raises in a hook."""

    def raises(self, run):
        raise error

    def loss(self, policy, batch):
        yield
        raise error

    member = hookimpl(wrapper=True)(loss) if hook == "compute_loss" else hookimpl(raises)
    return type("Acting", (Plugin,), {hook: member})


WAYS = ("raise", "vector", "infinite", "text", "shape", "nothing", "info", "reset")


@pytest.mark.parametrize(
    ("folder", "way"), [*(("named", way) for way in WAYS), ("there already", "reset"), ("below runs", "raise")]
)
def test_an_environment_that_cannot_be_stepped(quick, tmp_path, monkeypatch, folder, way):
    monkeypatch.chdir(tmp_path)
    env = type("Broken", (Broken,), {"way": way})
    run_dir = None if folder == "below runs" else tmp_path / "new" / "run"
    if folder == "there already":
        run_dir.mkdir(parents=True)
    context = quick(env, "a2c", run_dir=run_dir)
    with pytest.raises(MazeError) as caught:
        context.train()
    assert "reopen" not in str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    assert not (run_dir or tmp_path / "runs").exists()
    mended = quick(SeededWalk, "a2c", run_dir=run_dir)
    mended.train()
    assert (mended.run_dir / "checkpoints" / "last").is_dir()
    assert run_dir in (None, mended.run_dir)


REFUSALS = (ConfigError("cannot be", "callbacks.acting"), RunError("no"))


@pytest.mark.parametrize(
    ("hook", "error"),
    [*product(["on_run_start", "compute_loss"], REFUSALS), ("compute_loss", ValueError("a bug"))],
)
def test_a_callback_that_refuses_the_run(quick, hook, error):
    context = quick(SeededWalk, "a2c", callbacks={"acting": acting(hook, error)})
    with pytest.raises(type(error)) as caught:
        context.train()
    assert f"{context.run_dir} was removed. Its seed was 1." in caught.value.__notes__[-1]
    assert not context.run_dir.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LostError("the cluster is gone")])
def test_what_may_go_well_the_next_time_keeps_its_folder(quick, error):
    context = quick(SeededWalk, "a2c", callbacks={"acting": acting("compute_loss", error)})
    with pytest.raises(type(error)):
        context.train()
    assert (context.run_dir / "checkpoints" / "last").is_dir()
    idle = type("Acting", (Plugin,), {"on_run_start": hookimpl(lambda self, run: None)})
    assert quick(SeededWalk, "a2c", callbacks={"acting": idle}).resume(context.run_dir).epochs == 2


def test_a_run_that_has_saved_something_keeps_its_folder_and_so_does_one_that_is_resumed(quick):
    env = type("Broken", (Broken,), {})
    context = quick(env, "a2c")
    context.train(1)
    env.way = "raise"
    with pytest.raises(RunError) as caught:
        context.train()
    assert caught.value.__notes__[-1].endswith(f'of epoch 1. Next: RunContext.reopen("{context.run_dir}").train()')
    assert (context.run_dir / "checkpoints" / "last").is_dir()

    env.way = ""
    begun = quick(env, "a2c")
    begun.run.close()  # as one that is killed in its first epoch
    env.way = "raise"
    with pytest.raises(RunError) as caught:
        quick(env, "a2c").resume(begun.run_dir)
    assert "reopen" not in "".join(getattr(caught.value, "__notes__", ()))
    assert (begun.run_dir / "checkpoints" / "last").is_dir()


def test_another_process_in_the_folder_is_left_alone(quick):
    from maze_core.run.saved.run_dir import lock

    context = quick(SeededWalk, "a2c")
    with lock(context.run.run_dir), pytest.raises(ConfigError, match="another process is training"):
        context.train()
    assert (context.run_dir / "checkpoints" / "last").is_dir()
    assert context.train(1).epochs == 1


def test_the_current_folder_is_emptied_but_stays(quick, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    context = quick(type("Broken", (Broken,), {"way": "raise"}), "a2c", run_dir=here)
    with pytest.raises(RunError):
        context.train()
    assert list(here.iterdir()) == []
