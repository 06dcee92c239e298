from __future__ import annotations

import json
import math

from maze_core.cli.json_lines import JsonLines


def read(run):
    return [json.loads(line) for line in (run.run_dir / "metrics.jsonl").read_text().splitlines()]


def test_writes_counters_and_metrics_and_null_for_what_is_not_finite(make_run, make_epoch):
    run, log = make_run(), JsonLines(None)
    log.on_run_start(run)
    log.on_epoch_end(run, make_epoch(1, eval__return_mean=20.5, loss__value=math.nan, loss__kl=-math.inf))
    log.on_epoch_end(run, make_epoch(2, eval__return_mean=30))

    text = (run.run_dir / "metrics.jsonl").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    first, second = read(run)
    assert first == {
        "epoch": 1,
        "env_steps": 100,
        "updates": 25,
        "seconds": 0.5,
        "eval/return_mean": 20.5,
        "loss/value": None,
        "loss/kl": None,
    }
    assert second["epoch"] == 2
    assert second["eval/return_mean"] == 30.0


def test_each_line_is_on_disk_when_the_hook_returns(make_run, make_epoch):
    run, log = make_run(), JsonLines(None)
    log.on_run_start(run)
    for number in (1, 2, 3):
        log.on_epoch_end(run, make_epoch(number))
        assert [record["epoch"] for record in read(run)] == list(range(1, number + 1))


def test_resume_drops_epochs_after_the_checkpoint_and_a_torn_line(make_run, make_epoch):
    run, log = make_run(), JsonLines(None)
    log.on_run_start(run)
    for number in range(1, 5):
        log.on_epoch_end(run, make_epoch(number, loss__value=1.0))
    with (run.run_dir / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 1, "env_st')

    resumed = make_run(resumed=True, epoch=2)
    log = JsonLines(None)
    log.on_run_start(resumed)
    log.on_epoch_end(resumed, make_epoch(3, loss__value=2.0))

    assert [(record["epoch"], record["loss/value"]) for record in read(resumed)] == [
        (1, 1.0),
        (2, 1.0),
        (3, 2.0),
    ]
    assert [path.name for path in resumed.run_dir.iterdir()] == ["metrics.jsonl"]


def test_a_whole_last_line_without_its_newline_counts_as_torn(make_run, make_epoch):
    run = make_run(resumed=True, epoch=2)
    (run.run_dir / "metrics.jsonl").write_text('{"epoch": 1}\nnot json\n[3]\n{"epoch": 2}')
    log = JsonLines(None)
    log.on_run_start(run)
    log.on_epoch_end(run, make_epoch(2))
    assert [record["epoch"] for record in read(run)] == [1, 2]


def test_resume_drops_a_repeated_line(make_run, make_epoch):
    run = make_run(resumed=True, epoch=2)
    (run.run_dir / "metrics.jsonl").write_text(
        '{"epoch": 1}\n{"epoch": 2, "was": "first"}\n{"epoch": 2}\n{"epoch": 1}\n'
    )
    log = JsonLines(None)
    log.on_run_start(run)
    log.on_epoch_end(run, make_epoch(3))
    assert [record["epoch"] for record in read(run)] == [1, 2, 3]
    assert read(run)[1]["was"] == "first"


def test_without_a_run_directory_nothing_is_written(make_run, make_epoch):
    run, log = make_run(run_dir=None), JsonLines(None)
    log.on_run_start(run)
    log.on_epoch_end(run, make_epoch(1))
