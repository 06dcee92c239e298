"""What tests of published policies share: one that a tiny run has made, and forgeries of it."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from maze_publish import manifest
from maze_publish.archive import packed
from typer.testing import CliRunner

from maze_core.cli.main import app


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache of opened policies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "maze" / "policies"


@pytest.fixture
def maze():
    """`maze(*words)`: call the command in this process; the result, which must have exit code `code`."""

    def call(*words: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(map(str, words)))
        raised = f"{type(result.exception).__name__}: {result.exception}" if result.exception else ""
        assert result.exit_code == code, result.output + raised
        return result

    return call


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    """The files of a policy of CartPole, by name; not its manifest."""
    from maze_publish.publishing import Options, publish_policy

    from maze_core.run.context import RunContext

    folder = tmp_path_factory.mktemp("published")
    small = {
        "algorithm.n_rollout_steps": 8,
        "algorithm.num_envs": 2,
        "algorithm.epoch_length": 1,
        "algorithm.n_epochs": 1,
        "model.hidden": [8],
        "evaluation.n_episodes": 1,
    }
    with RunContext(
        "CartPole-v1", "a2c", overrides=small, run_dir=folder / "run", seed=1, silent=True, preset="none"
    ) as context:
        context.train()
    publish_policy(folder / "run", str(folder / "policy"), Options(episodes=10))
    files = [path for path in (folder / "policy").rglob("*") if path.is_file() and path.name != manifest.NAME]
    return {path.relative_to(folder / "policy").as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def forged(contents):
    """`forged(changes)`: the files of a policy and a manifest that fits them; None leaves a file out."""

    def forge(changes: dict[str, bytes | None] | None = None) -> dict[str, bytes]:
        changed = {name: data for name, data in (contents | (changes or {})).items() if data is not None}
        return {**changed, manifest.NAME: manifest.encode(changed)}

    return forge


@pytest.fixture
def archive(forged, tmp_path):
    """`archive(changes)`: the path of such a policy's archive."""

    def write(changes: dict[str, bytes | None] | None = None) -> Any:
        path = tmp_path / "policy.zip"
        path.write_bytes(packed(forged(changes)))
        return path

    return write


@pytest.fixture
def served():
    """`served(answer)`: the URL of a server whose every GET calls `answer(handler)`."""
    with ExitStack() as stack:

        def serve(answer: Any) -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    with suppress(OSError):
                        answer(self)

                def log_message(self, *_: Any) -> None:
                    pass

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield serve
