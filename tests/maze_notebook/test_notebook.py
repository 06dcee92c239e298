"""Runs in a notebook: what is shown while they train, how they show themselves, errors, data frames."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_notebook import history

from maze_core import ConfigError, Plugin, RunContext, RunError, hookimpl

EVIL = "<script>alert(1)</script>\x1b[2J"


class Tags(HTMLParser):
    """Collects tags, and what is open at the end."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attributes)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_progress_and_table_have_their_places(quick, notebook):
    context = quick(silent=False, overrides={"algorithm.n_epochs": 50})
    context.train()
    status, *blocks = notebook.values()
    assert '<progress max="1" value="1.0000"' in status["text/html"]
    assert "left" not in status["text/plain"]
    rows = [line for block in blocks for line in block["text/plain"].splitlines()]
    epochs = [int(row[:5]) for row in rows if re.match(r" {3,4}\d+ ", row)]
    assert epochs == list(range(1, 51))  # every row once, in order, though blocks are begun anew
    assert len(blocks) == 2
    assert rows[-1] == f'  RunContext.open("{context.run_dir}").evaluate()'
    for each in (status, *blocks):
        assert not Tags(each["text/html"]).open


def test_a_terminal_of_ipython_and_other_styles_show_what_they_always_do(quick, notebook, capsys):
    quick(callbacks={"console": {"style": "plain"}}, silent=False).train()
    del sys.modules["IPython"].get_ipython().kernel
    quick(silent=False).train()
    assert not notebook
    assert capsys.readouterr().out.count("Maze  ppo on") == 2


@pytest.mark.slow
def test_nothing_of_it_is_imported_elsewhere():
    told = "import maze_core.run.context, maze_core.cli.console.console, maze_notebook, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pandas", "IPython", "maze_notebook.card", "maze_notebook.frames"} & {*loaded}


def test_a_run_shows_itself(quick, notebook):
    context = quick("CartPole-v1")
    assert "not begun" in context._repr_html_()
    assert not notebook
    assert context._run is None  # to look at it builds nothing
    context.train()
    html = context._repr_html_()
    assert "<polyline" in html
    assert "finished: all 2 epochs are done" in html
    assert "eval/return_mean" in html
    with RunContext.open(context.run_dir) as opened:
        assert "opened to evaluate and to act" in opened._repr_html_()
    assert not Tags(html).open


def test_runs_of_strangers_are_only_text(quick, notebook):
    context = quick()
    context.train()
    path = context.run_dir / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = ({EVIL: 1.0}, {"env_steps": 10**400}, {"env_steps": None}, {"eval/return_mean": 1e308})
    path.write_text("\n".join(json.dumps(line | kinds[i % 4]) for i, line in enumerate(lines * 8)) + "\n[" * 9)
    plain = quick(run_dir=context.run_dir.parent / "<img src=x onerror=alert(1)>")
    plain.train()
    for each in (context, plain):
        html = each._repr_html_()
        assert not {"script", "img"} & {*Tags(html).tags}
        assert "\x1b" not in html
    path.unlink()
    path.mkdir()
    assert "finished" in context._repr_html_()


def test_without_evaluations_the_curve_is_that_of_training(quick, notebook):
    context = quick(overrides={"evaluation.n_episodes": 0, "algorithm.n_rollout_steps": 40})
    context.train()
    assert "train/return_mean" in context._repr_html_()


def shown(call):
    """What IPython shows of the error of a call."""
    with pytest.raises(BaseException) as caught:
        call()
    return caught.value._render_traceback_()


class Closed(SeededWalk):
    """It breaks in its third step."""

    def step(self, action):
        if self.np_random.random() < 0.5:
            raise ValueError(f"the shop is {EVIL}")
        return super().step(action)


def test_mistakes_are_two_lines(quick, notebook):
    lines = shown(lambda: RunContext("CartPole-v1", algoritm="ppo"))
    assert lines[0].endswith('RunContext("CartPole-v1", algoritm="ppo"))')
    assert lines[1:] == ["ConfigError: algoritm: RunContext has no such argument", "Did you mean algorithm?"]
    assert len(shown(lambda: quick(overrides={"algorithm.lrr": 1}))) == 2
    assert shown(lambda: RunContext("CartPole-v1", gama=0.9))[2] == 'Did you mean overrides={"algorithm.gamma": ...}?'
    assert shown(lambda: history("nowhere"))[-1] == "Runs are in `runs` unless run_dir named another folder."


def test_errors_of_the_users_code_keep_its_frames_alone(quick, notebook):
    lines = shown(quick(Closed).train)
    text = "\n".join(lines)
    assert 'raise ValueError(f"the shop is' in text
    assert "RunError: environment 0" in text
    assert "maze_core" not in text
    assert "\x1b" not in text


def test_what_maze_did_not_mean_keeps_its_traceback(quick, notebook, monkeypatch):
    context = quick()
    monkeypatch.setattr("maze_core.run.api.carry_out", lambda run: 1 / 0)
    with pytest.raises(ZeroDivisionError) as caught:
        context.train()
    text = "\n".join(getattr(caught.value, "_render_traceback_", lambda: ["whole"])())
    assert "division by zero" in text or text == "whole"


def test_errors_elsewhere_are_as_they_were():
    with pytest.raises(ConfigError) as caught:
        RunContext("CartPole-v1", algoritm="ppo")
    assert not hasattr(caught.value, "_render_traceback_")


def test_an_interrupt_is_short(quick, notebook):
    class Asking(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            raise KeyboardInterrupt

    assert shown(quick(callbacks={"asking": Asking}).train)[-1] == "KeyboardInterrupt"


def test_notes_of_a_failed_run_name_the_call(quick):
    class Failing(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            loss = yield
            if context.run.epoch:
                raise RunError("it is lost")
            return loss

    context = quick(callbacks={"failing": Failing})
    with pytest.raises(RunError) as caught:
        context.train()
    assert f'Next: RunContext.reopen("{context.run_dir}").train()' in "\n".join(caught.value.__notes__)


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


def test_scores_become_a_row(quick, pandas):
    context = quick()
    scores = context.evaluate(3)
    table = scores.to_frame()
    assert table.shape == (1, len(scores))
    assert table["eval/return_mean"].item() == scores["eval/return_mean"]


SPACES = {
    "vector": (spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(4, start=2)),
    "picture": (spaces.Box(0, 255, (4, 4, 3), np.uint8), spaces.Box(-1, 1, (2,), np.float32)),
    "tree": (spaces.Dict({"at": spaces.Discrete(3), "far": spaces.Box(0, 1, (2,), np.float32)}), spaces.MultiBinary(2)),
}


@pytest.mark.parametrize("kind", SPACES)
def test_episodes_become_a_row_for_each_step(quick, pandas, kind):
    model = {"model.name": "template"} if kind == "picture" else {}
    context = quick(lambda: gymnasium.wrappers.TimeLimit(SpacesEnv(*SPACES[kind]), 7), overrides=model)
    played = context.rollout(3, seed=1)
    table = played.to_frame()
    assert len(table) == sum(map(len, played))
    returns = table.groupby("episode")["reward"].sum()
    assert returns.to_numpy() == pytest.approx([each.episode_return for each in played])
    ends = table[table.terminated | table.truncated]
    assert ends["step"].tolist() == [len(each) - 1 for each in played]
    name, _, entry = {"vector": "observation[0]", "picture": "observation", "tree": "at"}[kind].partition("[")
    seen = played[0].obs[name][0]
    assert np.array_equal(table[f"{name}[{entry}" if entry else name][0], seen[0] if entry else seen)
    assert type(played)().to_frame().empty


def test_epochs_of_runs_become_rows(quick, pandas):
    context, other = quick(), quick(seed=2)
    for each in (context, other):
        each.train()
    table = history(context, other.run_dir)
    assert table["epoch"].tolist() == [1, 2, 1, 2]
    assert table["run"].nunique() == 2
    last = json.loads((other.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
    assert table.iloc[-1]["eval/return_mean"] == last["eval/return_mean"]
    with pytest.raises(ConfigError):
        history(context.run_dir / "nowhere")
    assert history().empty


def test_without_pandas_one_is_told(quick, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="need pandas"):
        quick().evaluate(1).to_frame()
