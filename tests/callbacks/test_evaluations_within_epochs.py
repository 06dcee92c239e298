"""What observers do with an evaluation in the middle of an epoch."""

import pytest

from maze_core.cli.console import Console, ConsoleConfig
from maze_core.cli.json_lines import JsonLines
from maze_core.plugins.config.base import PluginConfig
from maze_core.run.callbacks import BestCheckpoint

CONFIG = PluginConfig(name="observer")


@pytest.mark.parametrize(("is_best", "saved"), [(True, [("best", 0)]), (False, [])])
def test_the_best_is_kept(make_run, make_epoch, is_best, saved):
    run = make_run()
    BestCheckpoint(CONFIG).on_evaluation(run, make_epoch(1, is_best))
    assert run.saved == saved


def test_the_console_writes_a_row_and_announces_the_best(make_run, make_epoch, capsys):
    run, console = make_run(), Console(ConsoleConfig(style="plain"))
    console.on_evaluation(run, make_epoch(1))
    console.on_run_start(run)
    capsys.readouterr()
    console.on_evaluation(run, make_epoch(3, True, eval__return_mean=41.5))
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.split()[0] == "3"
    assert "new best 41.5" in row
    console.on_evaluation(run, make_epoch(3, True, validation__loss=0.5))
    assert capsys.readouterr().out.rstrip().endswith("new best")


def test_metrics_jsonl_has_whole_epochs_only():
    assert not hasattr(JsonLines(CONFIG), "on_evaluation")
