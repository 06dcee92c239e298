"""`maze report`, on runs that were never trained, of others, and made to harm."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from tests.maze_compare import made_runs

make_run = made_runs.make_run
SCORES = "CartPole-v1: {low: 0, high: 100}\nPendulum-v1: {low: -1000, high: 0}\n"
EVIL = "<script>alert(1)</script>\"'>&\\input{x}$(x)`x`|=1+1 [a](https://e.org) \\write18{x}"


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["report", *map(str, arguments), "--resamples", "100"], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.yaml").write_text(SCORES)


class Tags(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_page_says_the_answer_the_design_and_how_to_repeat_it(make_run, tmp_path):
    for seed in range(3):
        make_run(f"p{seed}", [10.0, 90.0 + seed], seed=seed)
        make_run(f"a{seed}", [10.0, 30.0], seed=seed, algorithm="a2c", lr=0.5)
        make_run(f"pp{seed}", [-900.0, -100.0], seed=seed, env="Pendulum-v1")
        make_run(f"ap{seed}", [-900.0, -400.0], seed=seed, env="Pendulum-v1", algorithm="a2c", lr=0.1)
    make_run("killed", [1.0], outcome=None)
    said = maze("runs", "--normalize", "scores.yaml").stdout
    page = (tmp_path / "report.html").read_text()
    assert said == f"wrote report.html, {len(page.encode()):,} bytes\n"
    for part in (
        "Which of ppo, a2c has the higher eval/return_mean on CartPole-v1, Pendulum-v1?",
        "ppo is better than a2c: it wins 100% of the pairs of runs",
        "2 algorithms on 2 tasks, 3 seeds each",
        "<td>0.5, 0.1</td>",  # the learning rates of a2c
        "left out 1 run that did not finish",
        "maze train ppo --config runs/p0/config.yaml --preset none --seed 0",
        "maze report runs --normalize scores.yaml",
        "prefers-color-scheme:dark",
        "@media print",
        "Content-Security-Policy",
    ):
        assert part in page, part
    tags = Tags(page)
    assert not tags.tags & {"script", "link", "iframe", "object"}
    assert page.count("<svg") == 3
    assert not re.search(r"(src|href)=", page)
    (tmp_path / "runs" / "sweep.yaml").write_text("x")
    maze("runs", "--normalize", "scores.yaml", "--format", "markdown")
    text = (tmp_path / "report.md").read_text()
    assert "maze sweep --plan runs/sweep.yaml --dir again" in text
    assert "| algorithm | IQM |" in text
    maze("runs", "--normalize", "range", "--format", "latex", "--out", "t.tex")
    tex = (tmp_path / "t.tex").read_text()
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == 4
    assert "91 $\\pm$ 1" in tex
    maze("runs", "--env", "CartPole-v1", "--take", "best", "--metric", "eval/return_mean", "--algorithm", "ppo")
    page = (tmp_path / "report.html").read_text()
    assert "maze report runs --metric eval/return_mean --env CartPole-v1 --algorithm ppo --take best" in page


@pytest.mark.parametrize(
    ("algorithms", "tasks", "seeds", "asked", "answered", "noted"),
    [
        (1, 1, 1, "What score does a0 reach on t0?", "a0 reaches 1 in one run; nothing is compared", "a single run"),
        (
            1,
            1,
            2,
            "What score does a0 reach on t0?",
            "a0 reaches 1.5 (1 to 2), the IQM of 2 runs on 1 task",
            "only 2 runs",
        ),
        (1, 2, 3, "does a0 reach on t0, t1?", "a0 reaches 2 (1.25 to 3), the IQM of 6 runs on 2 tasks", ""),
        (2, 1, 1, "Which of a1, a0 has the higher score on t0?", "too few runs to tell them apart", "a single run"),
        (2, 1, 3, "Which of a1, a0 has the higher score on t0?", "a1 is better than a0: it wins", ""),
    ],
)
def test_the_question_and_the_answer_are_those_of_the_experiment(
    tmp_path, algorithms, tasks, seeds, asked, answered, noted
):
    lines = [f"t{task},a{name},{seed},{10 * name + seed + 1}"
             for task in range(tasks) for name in range(algorithms) for seed in range(seeds)]  # fmt: skip
    (tmp_path / "x.csv").write_text("task,algorithm,seed,score\n" + "\n".join(lines))
    maze("--csv", "x.csv", "--normalize", "none", "--format", "markdown")
    text = (tmp_path / "report.md").read_text()
    assert asked in text
    assert answered in text
    assert ("take at least 3" in text.split("## Results")[1]) == bool(noted)
    assert noted in text
    assert f"{seeds} seed{'s' * (seeds > 1)} each" in text


def test_several_sweeps_are_repeated_into_several_folders(make_run, tmp_path):
    for name, algorithm in (("one", "ppo"), ("two", "a2c")):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "sweep.yaml").write_text("x")
        for seed in range(2):
            make_run(f"{name}/runs/t000-s{seed}", [1.0, 2.0], seed=seed, algorithm=algorithm)
    maze("runs", "--format", "markdown")
    commands = (tmp_path / "report.md").read_text().split("```bash\n")[1].splitlines()
    assert commands[:3] == [
        "maze sweep --plan runs/one/sweep.yaml --dir again/one",
        "maze sweep --plan runs/two/sweep.yaml --dir again/two",
        "maze report runs",
    ]


def test_a_film_is_embedded_where_there_is_one(make_run, tmp_path):
    make_run("one", [1.0, 2.0])
    maze("runs")
    assert "<video" not in (tmp_path / "report.html").read_text()
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (tmp_path / "runs" / "one" / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    maze("runs")
    assert "<video" not in (tmp_path / "report.html").read_text()
    (tmp_path / "runs" / "one" / "videos").mkdir()
    (tmp_path / "runs" / "one" / "videos" / "episode-1.mp4").write_bytes(b"film")
    maze("runs")
    assert 'src="data:video/mp4;base64,ZmlsbQ=="' in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("from_csv", [True, False])
def test_nothing_that_was_read_becomes_markup(make_run, tmp_path, from_csv):
    if from_csv:
        quoted = EVIL.replace('"', '""')
        lines = [f'"{quoted}","{quoted}{name}",{seed},1,{seed}' for name in "ab" for seed in range(3)]
        (tmp_path / "evil.csv").write_text("task,algorithm,seed,step,score\n" + "\n".join(lines))
        options = ["--csv", "evil.csv"]
    else:
        for seed in range(3):
            make_run(f"x{seed}", [1.0, 2.0], seed=seed, algorithm=EVIL, env=EVIL, note=EVIL)
            make_run(f"y{seed}", [1.0, 2.0], seed=seed, algorithm=f"{EVIL}b", env=EVIL, note=f"{EVIL}b")
        options = ["runs"]
    before = sorted(tmp_path.rglob("*"))
    maze(*options, "--title", EVIL)
    page = (tmp_path / "report.html").read_text()
    tags = Tags(page)
    known = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "table", "thead", "tbody", "tr",
             "th", "td", "figure", "figcaption", "svg", "path", "text", "rect", "ul", "li", "span", "pre"}  # fmt: skip
    assert tags.tags <= known
    assert not {name for name in tags.attributes if name.startswith("on") or name in ("href", "src")}
    maze(*options, "--title", EVIL, "--format", "markdown")
    text = (tmp_path / "report.md").read_text()
    outside = re.sub(r"```+bash\n.*?\n```+", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)[<`\[]", outside)
    assert "https://" not in outside
    maze(*options, "--title", EVIL, "--format", "latex")
    tex = (tmp_path / "report.tex").read_text()
    assert "\\input" not in tex
    assert "\\write" not in tex
    assert "\\textbackslash{}input\\{x\\}" in tex
    written = {"report.html", "report.md", "report.tex"}
    assert {path.name for path in sorted(tmp_path.rglob("*")) if path not in before} == written


def test_a_report_of_five_algorithms_on_six_tasks_is_small(tmp_path):
    lines = [f"task{task},algorithm{name},{seed},{step * 1000},{(task + name + seed) * step / 100}"
             for task in range(6) for name in range(5) for seed in range(5) for step in range(1, 60)]  # fmt: skip
    (tmp_path / "all.csv").write_text("task,algorithm,seed,step,score\n" + "\n".join(lines))
    maze("--csv", "all.csv", "--normalize", "range")
    assert (tmp_path / "report.html").stat().st_size < 80_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a folder with runs, or --csv FILE"),
        (["nowhere"], "nowhere"),
        (["one.csv"], "Next: --csv one.csv"),
        (["--csv", "european.csv"], "Columns are separated by commas"),
        (["--csv", "none.csv"], "there is no such file"),
        (["--csv", "one.csv", "--format", "pdf"], "--format: unknown 'pdf'"),
        (["--csv", "one.csv", "--take", "first"], "--take: unknown 'first'"),
        (["--csv", "one.csv", "--metric", "eval/return_mean"], "files have one score"),
        (["--csv", "one.csv", "--out", "none/a.html"], "cannot write none/a.html"),
        (["--csv", "one.csv", "--out", "."], "cannot write"),
    ],
)
def test_one_clear_error(tmp_path, arguments, said):
    (tmp_path / "one.csv").write_text("task,algorithm,seed,score\nx,a,0,1\n")
    (tmp_path / "european.csv").write_text("task;algorithm;seed;score\nx;a;0;1,5\n")
    assert said in maze(*arguments, code=2).stderr
    assert not list(tmp_path.glob("report.*"))
