"""The page on notebooks and the example, cell by cell, in a kernel of their own."""

import json
from pathlib import Path

import pytest

from tests.docs.test_snippets import ROOT, blocks

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
EXAMPLE = ROOT / "examples" / "notebooks" / "first_run.ipynb"
INSTALL = "%pip install --quiet --find-links $MAZE maze-all[notebooks]"
INTERRUPTED = """
import os, signal
from maze_core import Plugin, hookimpl


class Sender(Plugin):
    @hookimpl
    def on_epoch_end(self, run, epoch):
        os.kill(os.getpid(), signal.SIGINT)


for seed in (1, 2):
    sending = {"sender": Sender}
    RunContext("CartPole-v1", "ppo", steps=20_000, seed=seed, callbacks=sending, run_dir=f"runs/e{seed}").train()
"""


def executed(sources: list[str], folder: Path) -> list:
    """The cells with what they show."""
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    options = {"allow_errors": True, "kernel_name": "python3", "resources": {"metadata": {"path": str(folder)}}}
    NotebookClient(notebook, timeout=200, **options).execute()
    return notebook.cells


def errors(cell):
    return [output for output in cell.outputs if output.output_type == "error"]


def html(cell):
    return "".join(output.data.get("text/html", "") for output in cell.outputs if "data" in output)


@pytest.mark.slow
def test_the_page_runs_and_one_interrupt_ends_a_cell(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = blocks("docs/guide/notebooks.md")
    sources = [each.program.replace("30_000", "20_000") for each in found if each.language == "python"]
    said = next(each.text for each in found if each.language == "text")
    *cells, ended, after = executed(
        [*sources, INTERRUPTED, "len(steps), len(curve), sorted(os.listdir('runs'))"], tmp_path
    )
    train, look, _, mistake, own = cells
    assert [cell for cell in cells if errors(cell)] == [mistake]
    assert '<progress max="1" value="1.0000"' in html(train)
    assert html(train).count("<pre") >= 1
    assert "<polyline" in html(look)
    (error,) = errors(mistake)
    assert "\n".join(error.traceback).split("\n", 1) == [
        'Cell In[4], line 1: RunContext("CartPole-v1", algoritm="ppo")', said.strip()
    ]  # fmt: skip
    assert float(own.outputs[-1].data["text/plain"]) > 12
    (error,) = errors(ended)
    assert error.ename == error.traceback[-1] == "KeyboardInterrupt"
    assert len(error.traceback) == 2
    assert "'e1'" in after.outputs[0].data["text/plain"]
    assert "'e2'" not in after.outputs[0].data["text/plain"]


@pytest.mark.slow
def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cells = json.loads(EXAMPLE.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in cells)
    assert sources[0].splitlines()[-1] == INSTALL  # installed it is already
    done = executed([source.replace("50_000", "20_000") for source in sources[1:]], tmp_path)
    assert not [error for cell in done for error in errors(cell)]
    assert "<polyline" in html(done[1])


def test_the_install_line_is_that_of_the_readme():
    assert INSTALL.replace("$MAZE", "dist") in EXAMPLE.with_name("README.md").read_text(encoding="utf-8")
    assert INSTALL in EXAMPLE.read_text(encoding="utf-8")
