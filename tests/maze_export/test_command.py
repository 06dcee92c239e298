"""`maze export`, `maze eval --policy`, and the deployment that the documentation shows."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from tests.maze_export.conftest import stir

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "deployment.md"
WITHOUT = {
    "deploy.py": ("torch", "maze_core", "maze_export", "onnx", "onnxscript", "pydantic"),
    "deploy_torch.py": ("maze_core", "maze_export", "onnx", "onnxruntime", "onnxscript", "pydantic"),
}


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A saved run on CartPole-v1, of a network that balances for some steps."""
    folder = tmp_path_factory.mktemp("saved") / "run"
    small = ["--set", "evaluation.n_episodes=2", "--set", "callbacks.tensorboard=null", "--quiet"]
    maze(
        "train",
        "ppo",
        "--env",
        "CartPole-v1",
        "--preset",
        "none",
        "--steps",
        1600,
        "--seed",
        1,
        "--run-dir",
        folder,
        *small,
    )
    return folder


@pytest.fixture(scope="module")
def exported(run):
    """That run's policy in both formats."""
    folder = run.parent
    say = maze("export", run, "--out", folder / "policy.onnx").stdout
    assert re.fullmatch(
        r"wrote .*policy\.onnx, [\d,]+ bytes; it acts as torch does on 1,000 observations\n"
        r"Next: maze eval .*run --policy .*policy\.onnx\n",
        say,
    )
    done = maze("export", run, "--format", "pt2", "--out", folder / "policy.pt2", "--checkpoint", "last", "--json")
    assert json.loads(done.stdout)["rows"] == 1000
    assert done.stderr == ""
    return folder


def test_an_exported_policy_is_evaluated_as_the_run_is(run, exported):
    options = ("--episodes", 3, "--seed", 3, "--json")
    own = json.loads(maze("eval", run, *options).stdout)
    its = json.loads(maze("eval", run, "--policy", exported / "policy.onnx", *options).stdout)
    assert its.pop("policy") == str(exported / "policy.onnx")
    assert {own.pop("checkpoint"), own.pop("epoch")} == {"best", 1}
    assert its == own
    env = ("--env", "CartPole-v1", "--episodes", 3, "--seed", 3, "--json")
    played = json.loads(maze("rollout", "--policy", exported / "policy.onnx", *env).stdout)
    assert played == json.loads(maze("rollout", run, "--episodes", 3, "--seed", 3, "--json").stdout)


def test_a_file_for_another_environment(run, exported):
    wrong = maze("rollout", "--policy", exported / "policy.onnx", "--env", "Pendulum-v1", code=2)
    assert wrong.stderr.startswith("error: policy.file: the policy was exported for the observation space Box(")
    assert wrong.stderr.count("\n") == 1


def test_pt2_is_not_played_since_it_may_contain_pickle(run, exported):
    wrong = maze("eval", run, "--policy", exported / "policy.pt2", code=2)
    assert wrong.stderr.splitlines() == [
        "error: policy.name: unknown policy 'pt2'",
        "Maze plays ONNX files only, since a pt2 file may contain pickle. "
        "Next: maze export RUN --out policy.onnx",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--out", "policy.txt"], "error: --out: policy.txt must end in .onnx or .pt2"),
        (["--out", "a.onnx", "--checkpoint", "none"], "checkpoint"),
        (["--out", "a.onnx", "--set", "env.id=Pendulum-v1"], "observation_space"),
    ],
)
def test_wrong_input(run, options, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wrong = maze("export", run, *options, code=2)
    assert problem in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", WITHOUT)
def test_the_programs_of_the_page_need_neither_maze_nor_the_exporter(exported, program):
    """Packages that are not to be needed cannot be imported, and Python looks nowhere but where it installs them."""
    (code,) = re.findall(rf"```python\n# {re.escape(program)}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in WITHOUT[program])
    lines = [line for line in code.splitlines() if line]
    assert len(lines) <= 11
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", f"import sys\n{blocked}{code}"],
        cwd=exported, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"return \d+\n", done.stdout)
    assert done.stderr == ""


def test_nothing_heavy_is_imported_to_list_commands_or_policies():
    heavy = ("torch", "onnx", "onnxruntime", "onnxscript")
    code = (
        "import sys, maze_export.command, maze_export.onnx_policy\n"
        "from maze_core.cli.main import app\n"
        "from typer.testing import CliRunner\n"
        "assert 'export' in CliRunner().invoke(app, ['--help']).stdout\n"
        f"sys.exit(' '.join(name for name in {heavy!r} if name in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


def test_a_stochastic_policy_is_played_from_the_seed(prepared, tmp_path):
    context = prepared("Pendulum-v1", overrides={"model.distribution": "beta", "model.hidden": [4]})
    stir(context.policy)
    context.run.save_last()
    run, file = context.run_dir, tmp_path / "a.onnx"
    maze("export", run, "--checkpoint", "last", "--out", file, "--stochastic", "--json")
    play = functools.partial(maze, "eval", run, "--policy", file, "--json", "--seed")
    first, again, other = (json.loads(play(seed).stdout)["eval/return_mean"] for seed in (1, 1, 2))
    assert first == again != other
