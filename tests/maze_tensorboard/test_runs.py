"""What TensorBoard shows of whole runs, and runs where the callback is not installed."""

import json
import re
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from maze_core import RunContext
from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import INSTALLED, load_run_config
from maze_core.plugins.how_to_install import how_to_install
from tests.conftest import QUICK
from tests.market import Market

INSTALL = f"It comes with maze-tensorboard, which is not installed. Next: {how_to_install('maze-tensorboard')}"
NOTE = f"note: this run does without the callback tensorboard. {INSTALL}\n"
DRAWN = {**QUICK, "callbacks.tensorboard": {}, "callbacks.console": None}
PLAIN = {path: value for path, value in DRAWN.items() if path != "callbacks.tensorboard"}


def test_tensorboard_has_the_histograms_and_the_settings(quick):
    context = quick(Market, overrides={"callbacks.tensorboard": {"parameters": True}, "algorithm.n_rollout_steps": 8})
    context.train()
    lines = [json.loads(line) for line in (context.run_dir / "metrics.jsonl").read_text().splitlines()]
    runs = EventMultiplexer().AddRunsFromDirectory(str(context.run_dir)).Reload()
    drawn = runs.PluginRunToTagToContent("histograms")["tensorboard"]
    names = {f"{part}/event/price/{name}" for part in ("train", "eval") for name in ("histogram", "sum_histogram")}
    assert names <= set(drawn)
    assert any(name.startswith("parameters/") for name in drawn)
    first, last = runs.Tensors("tensorboard", "train/event/price/histogram")
    assert (first.step, last.step) == tuple(line["env_steps"] for line in lines)
    content = runs.PluginRunToTagToContent("hparams")["tensorboard"]["_hparams_/session_start_info"]
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["algorithm.n_rollout_steps"].number_value == 8
    assert settings["algorithm.name"].string_value == "ppo"
    assert "_hparams_/session_end_info" in runs.PluginRunToTagToContent("hparams")["tensorboard"]
    # In the order of the guide, within which each group is in order, too.
    tags = EventAccumulator(str(context.run_dir / "tensorboard")).Reload().Tags()["scalars"]
    groups = {tag.partition("/")[0]: [] for tag in sorted(tags)}
    for tag in tags:
        groups[tag.partition("/")[0]].append(tag)
    page = (Path(__file__).parents[2] / "docs" / "guide" / "loggers.md").read_text(encoding="utf-8")
    assert list(groups) == re.findall(r"^\| `(\w+)/` \|", page, re.MULTILINE)
    assert all(found == sorted(found) for found in groups.values()), groups


@pytest.fixture
def uninstalled(monkeypatch):
    """`uninstalled()`: from now on the distribution is not installed."""

    def remove():
        others = tuple(each for each in discovery.declared() if each.distribution != "maze-tensorboard")
        monkeypatch.setattr(discovery, "declared", lambda: others)

    return remove


def test_where_it_is_not_installed_a_run_trains_without_it(uninstalled, tmp_path, capsys):
    uninstalled()
    with RunContext("CartPole-v1", "ppo", overrides=PLAIN, run_dir=tmp_path / "run") as context:
        assert context.train().outcome == "finished"
    assert capsys.readouterr().err == NOTE
    assert "tensorboard" not in context.config.callbacks
    assert not (context.run_dir / "tensorboard").exists()


def test_nothing_is_said_of_a_callback_that_is_left_out_on_purpose(uninstalled, tmp_path, capsys):
    uninstalled()
    RunContext("CartPole-v1", "ppo", overrides={**PLAIN, "callbacks.tensorboard": None}, run_dir=tmp_path / "run")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "asked",
    [{"callbacks.tensorboard.parameters": True}, {"callbacks": {"tensorboard": {}}}, {"callbacks.tensorboard": {}}],
)
def test_whoever_asks_for_it_is_told_what_to_install(uninstalled, asked):
    uninstalled()
    with pytest.raises(ConfigError, match=r"callbacks\.tensorboard\.name: unknown callback 'tensorboard'") as caught:
        RunContext("CartPole-v1", "ppo", overrides={**PLAIN, **asked})
    assert INSTALL in str(caught.value)


def test_a_run_that_had_it_is_opened_and_resumed_without_it(uninstalled, tmp_path, capsys):
    with RunContext("CartPole-v1", "ppo", overrides=DRAWN, run_dir=tmp_path / "run") as context:
        context.train()
    config = tmp_path / "run" / "config.yaml"
    before = config.read_bytes()
    uninstalled()
    capsys.readouterr()
    assert "tensorboard" not in INSTALLED.load_saved_config(config).callbacks
    assert "tensorboard" not in load_run_config(config).callbacks
    assert capsys.readouterr().err == 2 * NOTE
    assert config.read_bytes() == before
    with RunContext.open(tmp_path / "run") as opened:
        assert opened.evaluate()["eval/episodes"] == QUICK["evaluation.n_episodes"]
    assert "callbacks.tensorboard (tensorboard)" in capsys.readouterr().err
    with RunContext.reopen(tmp_path / "run", {"algorithm.n_epochs": 3}) as again:
        assert again.train().outcome == "finished"


def test_one_that_is_turned_off_is_left_out_too(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(discovery.DISABLE, "maze-tensorboard")
    RunContext("CartPole-v1", "ppo", overrides=PLAIN, run_dir=tmp_path / "run")
    assert f"It is installed, but {discovery.DISABLE} turns it off" in capsys.readouterr().err
