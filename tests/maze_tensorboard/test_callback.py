from __future__ import annotations

import dataclasses
import io
import math
import types

import numpy as np
import pytest
from maze_tensorboard.callback import TensorBoard
from maze_tensorboard.event_file import read_records
from PIL import Image

from maze_core.run.report import EpochReport, RunSummary

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
event_multiplexer = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_multiplexer")
data_provider = pytest.importorskip("tensorboard.backend.event_processing.data_provider")
backend_context = pytest.importorskip("tensorboard.plugins.hparams.backend_context")
list_session_groups = pytest.importorskip("tensorboard.plugins.hparams.list_session_groups")
hparams_api = pytest.importorskip("tensorboard.plugins.hparams.api_pb2")
RequestContext = pytest.importorskip("tensorboard.context").RequestContext
STATUS_FAILURE = hparams_api.STATUS_FAILURE
HParamsPluginData = pytest.importorskip("tensorboard.plugins.hparams.plugin_data_pb2").HParamsPluginData


def read(run):
    """What TensorBoard itself reads from the run."""
    events = accumulator.EventAccumulator(str(run.run_dir / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    return events.Reload()


def points(run, tag):
    return [(event.step, event.value) for event in read(run).Scalars(tag)]


def train(run, epochs):
    board = TensorBoard(None)
    board.on_run_start(run)
    for epoch in epochs:
        board.on_epoch_end(run, epoch)
    return board


def summary(**final):
    return RunSummary("finished", "done", 2, 200, 50, 1.0, final)


def test_metrics_are_curves_over_env_steps(make_run, make_epoch):
    run = make_run()
    train(run, [make_epoch(1, eval__return_mean=20.5), make_epoch(2, eval__return_mean=30.25, loss__value=1.0)])
    # Read before the run has ended: what is logged is on the disk.
    assert points(run, "eval/return_mean") == [(100, 20.5), (200, 30.25)]
    assert points(run, "loss/value") == [(200, 1.0)]


def test_nan_has_no_point(make_run, make_epoch):
    run = make_run()
    train(run, [make_epoch(1, loss__value=math.nan, loss__kl=2.0), make_epoch(2, loss__value=math.nan)])
    assert read(run).Tags()["scalars"] == ["loss/kl"]


def test_the_configuration_and_versions_are_a_text_page(make_run):
    run = make_run()
    train(run, [])
    (event,) = read(run).Tensors("config/text_summary")
    (text,) = event.tensor_proto.string_val
    page = text.decode()
    assert "id: CartPole-v1" in page
    assert "seed: 7" in page
    assert '"maze-core": "0.1.0"' in page
    metadata = read(run).SummaryMetadata("config/text_summary")
    assert metadata.plugin_data.plugin_name == "text"


def test_a_resumed_run_shows_every_epoch_once(make_run, make_epoch):
    first = make_run()
    # Epochs 3 and 4 were done but not saved: the crash took them.
    train(first, [make_epoch(n, loss__value=float(n)) for n in (1, 2, 3, 4)])
    resumed = make_run(resumed=True, epoch=2, env_steps=200)
    train(resumed, [make_epoch(3, loss__value=30.0)])
    assert points(resumed, "loss/value") == [(100, 1.0), (200, 2.0), (300, 30.0)]


def test_the_final_evaluation_has_a_name_of_its_own(make_run, make_epoch):
    run = make_run()
    board = train(run, [make_epoch(2, eval__return_mean=1.0)])
    board.on_run_end(run, summary(**{"eval/return_mean": 5.0}))
    assert points(run, "eval/return_mean") == [(200, 1.0)]
    assert points(run, "final/return_mean") == [(200, 5.0)]


def test_two_runs_in_one_process_do_not_mix(make_run, make_epoch, tmp_path):
    runs = [make_run(run_dir=tmp_path / name) for name in "ab"]
    boards = [train(run, []) for run in runs]
    for value, (run, board) in enumerate(zip(runs, boards, strict=True)):
        board.on_epoch_end(run, make_epoch(1, loss__value=float(value)))
    assert [points(run, "loss/value") for run in runs] == [[(100, 0.0)], [(100, 1.0)]]


def test_without_a_run_directory_nothing_is_written(make_run, make_epoch):
    run = make_run(run_dir=None)
    board = train(run, [make_epoch(1, loss__value=1.0)])
    board.on_run_end(run, summary())


def test_settings_are_there_once_and_the_end_says_how_the_run_ended(make_run, make_epoch):
    train(make_run(), [make_epoch(1)])
    resumed = make_run(resumed=True, epoch=1, env_steps=100)
    board = train(resumed, [make_epoch(2)])
    board.on_run_end(resumed, dataclasses.replace(summary(), outcome="failed"))
    starts, ends = (
        [
            HParamsPluginData.FromString(value.metadata.plugin_data.content)
            for record in read_records(resumed.run_dir / "tensorboard")
            for value in record.values
            if value.tag == f"_hparams_/session_{which}_info"
        ]
        for which in ("start", "end")
    )
    settings = {name: value.WhichOneof("kind") for name, value in starts[0].session_start_info.hparams.items()}
    assert (len(starts), len(ends)) == (1, 1)
    assert (
        settings.items() >= {"algorithm.name": "string_value", "seed": "number_value", "env.id": "string_value"}.items()
    )
    assert not any(name.startswith("callbacks") for name in settings)
    assert ends[0].session_end_info.status == STATUS_FAILURE


def test_the_table_of_runs_has_settings_and_final_metrics(make_run, make_epoch, tmp_path):
    """Read as TensorBoard's tab HPARAMS reads a folder of runs."""
    for name, final in (("a", 5.0), ("b", 6.0)):
        run = make_run(run_dir=tmp_path / name)
        board = train(run, [make_epoch(1, loss__value=1.0)])
        board.on_run_end(run, summary(**{"eval/return_mean": final}))
    multiplexer = event_multiplexer.EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(tmp_path)).Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(tmp_path))
    context, request = backend_context.Context(types.SimpleNamespace(data_provider=provider)), RequestContext()
    found = context.experiment_from_metadata(request, "", True, context.hparams_metadata(request, ""), [])
    assert {"algorithm.name", "seed"} <= {info.name for info in found.hparam_infos}
    wanted = hparams_api.ListSessionGroupsRequest(
        slice_size=9,
        include_metrics=True,
        allowed_statuses=[hparams_api.STATUS_SUCCESS],
        col_params=[hparams_api.ColParams(metric=info.name) for info in found.metric_infos],
    )
    groups = list_session_groups.Handler(request, context, "", wanted).run().session_groups
    returns = {
        group.name: value.value
        for group in groups
        for value in group.metric_values
        if value.name.tag == "final/return_mean"
    }
    assert returns == {"a": 5.0, "b": 6.0}


class Sketch:
    """What a figure of matplotlib can do, as far as it is needed."""

    def savefig(self, file, format):
        Image.new("RGBA", (30, 20), (255, 0, 0, 255)).save(file, format)


def drawn(run, tag):
    return [
        (event.step, np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))) for event in read(run).Images(tag)
    ]


def test_figures_are_pictures(make_run, make_epoch):
    rng, run = np.random.default_rng(0), make_run()
    grey, colour = rng.integers(256, size=(7, 9), dtype=np.uint8), rng.integers(256, size=(6, 5, 3), dtype=np.uint8)
    large = np.zeros((40, 3200), np.uint8)
    figures = {"grey": grey, "colour": colour[:, ::-1], "sketch": Sketch(), "large": large}
    train(run, [dataclasses.replace(make_epoch(1, loss__value=1.0), figures=figures), make_epoch(2)])
    assert set(read(run).Tags()["images"]) == set(figures)
    [(step, picture)] = drawn(run, "grey")
    np.testing.assert_array_equal(picture, np.stack([grey] * 3, -1))
    assert step == 100
    np.testing.assert_array_equal(drawn(run, "colour")[0][1], colour[:, ::-1])
    assert drawn(run, "sketch")[0][1].shape == (20, 30, 3)
    assert drawn(run, "large")[0][1].shape == (20, 1600, 3)


def test_what_is_no_figure_is_named_and_everything_else_is_written(make_run, make_epoch):
    run = make_run()
    wrong = {"a": np.zeros((4, 4)), "b": np.zeros((2, 2, 4), np.uint8), "c": "x", "d": np.zeros((0, 3), np.uint8)}
    figures = {**wrong, "good": np.zeros((4, 4), np.uint8)}
    with pytest.warns(RuntimeWarning, match="the figure . is not drawn: ") as told:
        train(run, [dataclasses.replace(make_epoch(1, loss__value=1.0), figures=figures)])
    assert sum("is not drawn" in str(each.message) for each in told) == len(wrong)
    assert read(run).Tags()["images"] == ["good"]
    assert points(run, "loss/value") == [(100, 1.0)]


def test_figures_of_epochs_that_are_repeated_are_withdrawn(make_run, make_epoch):
    def epoch(number, value):
        return dataclasses.replace(make_epoch(number), figures={"seen": np.full((2, 2), value, np.uint8)})

    train(make_run(), [epoch(1, 10), epoch(2, 20)])
    resumed = make_run(resumed=True, epoch=1, env_steps=100)
    train(resumed, [epoch(2, 30)])
    assert [(step, int(picture[0, 0, 0])) for step, picture in drawn(resumed, "seen")] == [(100, 10), (200, 30)]


def test_without_steps_the_curves_go_over_updates(make_run):
    run, board = make_run(), TensorBoard(None)
    board.on_run_start(run)
    board.on_evaluation(run, EpochReport(1, 0, 10, 1.0, {"eval/return_mean": 1.0}))
    board.on_epoch_end(run, EpochReport(1, 0, 25, 2.0, {"eval/return_mean": 2.0}))
    board.on_run_end(run, RunSummary("finished", "done", 1, 0, 25, 2.0, {"eval/return_mean": 3.0}))
    resumed = make_run(resumed=True, updates=10)
    board.on_run_start(resumed)
    board.on_epoch_end(resumed, EpochReport(1, 0, 26, 2.0, {"eval/return_mean": 4.0}))
    board.on_run_end(resumed, RunSummary("finished", "done", 1, 0, 26, 2.0))
    assert points(run, "eval/return_mean") == [(10, 1.0), (26, 4.0)]
