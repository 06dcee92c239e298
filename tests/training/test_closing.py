"""What raises when it is closed changes neither the result of a run nor the error that ended it."""

import gymnasium
import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import RunError
from maze_core.learn.algorithm import Algorithm
from maze_core.plugins.base import Plugin
from maze_core.plugins.closing import release, releasing
from maze_core.plugins.hookspecs import hookimpl


class Odd(BaseException):
    """Neither an Exception nor one that Python itself raises."""


ERRORS = [ValueError("still open"), RunError("still open"), SystemExit("still open"), Odd("still open")]


def named(error):
    return type(error).__name__


class Slamming(gymnasium.Wrapper):
    """Raises when it is closed; the environment inside is left open."""

    error = None

    def close(self):
        raise self.error


@pytest.fixture(params=ERRORS, ids=named)
def slamming(request):
    """A wrapper class whose `close` raises."""
    return type("Slamming", (Slamming,), {"error": request.param})


def check_warned(text, error, times=None):
    found = [line for line in text.splitlines() if "closing" in line]
    assert found, text
    assert all(line.startswith("warning: closing ") and f"{named(error)}: still open (" in line for line in found)
    assert times in (None, len(found))


def test_environments(quick, slamming, capsys):
    context = quick(lambda: slamming(SeededWalk()))
    assert context.train().outcome == "finished"
    capsys.readouterr()
    context.close()
    check_warned(capsys.readouterr().err, slamming.error, times=2)  # those of training and those of evaluation


def test_wrappers_and_the_many_ways_to_use_a_run(quick, slamming, capsys, tmp_path):
    """`with`, evaluations, recordings: each closes environments of its own."""
    with quick(SeededWalk, wrappers=[slamming]) as context:
        context.train(1)
        assert context.evaluate()["eval/episodes"] == 1
        assert len(context.rollout(2, record=tmp_path / "demos")) == 2
    check_warned(capsys.readouterr().err, slamming.error)
    opened = quick(SeededWalk, wrappers=[slamming]).load(context.run_dir)
    assert opened.evaluate()["eval/episodes"] == 1
    opened.close()


@pytest.mark.parametrize("error", ERRORS, ids=named)
def test_algorithms_do_not_keep_environments_open(quick, monkeypatch, capsys, error):
    closed = []

    def close(self):
        raise error

    context = quick(type("Seen", (SeededWalk,), {"close": lambda self: closed.append(self)}))
    monkeypatch.setattr(Algorithm, "close", close)
    context.train(1)
    closed.clear()
    context.close()
    assert len(closed) == 4  # three of training, one of evaluation
    check_warned(capsys.readouterr().err, error, times=1)


@pytest.mark.parametrize("error", ERRORS, ids=named)
def test_observers_at_the_end(quick, capsys, error):
    class Last(Plugin):
        @hookimpl
        def on_run_end(self, run, summary):
            raise error

    assert quick(callbacks={"last": Last}).train().outcome == "finished"
    told = capsys.readouterr().err
    assert "'last' failed and is no longer called: " in told
    assert "still open" in told


def test_the_error_that_ended_a_run_stays_the_one_reported(quick, slamming):
    class Breaking(SeededWalk):
        def step(self, action):
            raise ZeroDivisionError("the wheel came off")

    with pytest.raises(RunError, match="the wheel came off"), quick(Breaking, wrappers=[slamming]) as context:
        context.train()


def test_an_environment_that_cannot_be_built_is_the_error(quick, slamming):
    """Those built before it are closed."""
    built = []

    def build():
        built.append(1)
        if len(built) > 2:
            raise OSError("no more wheels")
        return slamming(SeededWalk())

    with pytest.raises(Exception, match="no more wheels"):
        quick(build).train()


def test_all_are_closed_and_only_an_interrupt_is_raised(capsys):
    closed = []

    class Thing:
        def __init__(self, error=None):
            self.error = error

        def close(self):
            closed.append(self)
            if self.error is not None:
                raise self.error

    release(Thing(), None, Thing(ValueError("still open")), Thing(ValueError("still open")), Thing(OSError("\x1b[2J")))
    assert len(closed) == 4
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 2
    assert "\x1b" not in said
    with pytest.raises(KeyboardInterrupt):
        release(Thing(KeyboardInterrupt()), Thing())
    assert len(closed) == 6
    with pytest.raises(KeyError), releasing(Thing(ValueError("still open"))):
        raise KeyError
    assert len(closed) == 7
