"""Addresses of this machine and folders within known ones, told from everything that only looks like them."""

from pathlib import Path

import pytest

from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.here import texts

HERE = [
    "localhost", "LOCALHOST:6379", "127.0.0.1", "127.8.9.1:80", "[::1]:6379", "http://localhost:8000/x", "grpc://[::1]:1",
    "HTTP://LocalHost/", "postgresql+psycopg2://localhost:5432/runs", "ray://127.0.0.1:10001", "sqlite:///runs.db",
    "sqlite:///deep/er/runs.db", "file://{here}/copies", "local://{here}", "sqlite:///{here}/x.db",
]  # fmt: skip
ELSEWHERE = [
    # buckets, accounts and stores that are called like this machine
    "s3://auto/run", "s3://local/run", "s3://localhost/run", "gs://localhost/x", "memory://localhost/x", "az://local/x",
    "hf://localhost/x", "databricks", "databricks://local", "abfs://127.0.0.1/x", "uc://localhost", "x://localhost/",
    # words without a scheme
    "auto", "local", "mlruns", "", "here/there", "localhost/x",
    # other hosts in disguise
    "http://localhost@evil.example/", "http://localhost:80@evil.example", "http://evil.example@localhost/",
    "http://127.0.0.1.evil.example/", "http://localhost.evil.example", "http://evil.example#localhost",
    "http://evil.example\\@localhost/", "http://localhost\\.evil.example/", "//evil.example/localhost",
    "postgresql://localhost/x?host=evil.example", "postgresql://localhost,evil.example/x", "http://localhost%2eevil/",
    "http:evil.example", "http:///evil.example", "http://localhost /", " localhost", "localhost\n", "http://ⓛocalhost/",
    "http://localhost:80:90/", "localhost:99999", "[", "[::1", "http://[::1]evil/", "0.0.0.0:80", "2130706433", "127.1",
    "0x7f.0.0.1", "[2001:db8::1]:1", "$HOST:80", "http://${HOST}/", "http://localhost/$X",
    # file transfer, and files elsewhere
    "sftp://localhost/home/x", "ftp://localhost/x", "smb://localhost/x", "file:///etc/x", "file://localhost{here}/x",
    "file://{here}/../x", "file://{here}/%2e%2e/x", "file://{here}x/y", "file://{here}/x?/../../y", "file://x",
    "sqlite:////etc/x.db", "sqlite:///../x.db", "sqlite://", "sqlite:///", "sqlite:///~/x.db", "local:///etc",
    "file+x:///etc", "C:\\runs", "\\\\server\\share", "FILE:///etc/x",
]  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("kind", [Outside.ADDRESS, Outside.ADDRESS.but("auto").kind])
def test_addresses(here, kind):
    for address in HERE:
        assert not kind.is_elsewhere(address.format(here=here), [here]), address
    for address in ELSEWHERE:
        assert kind.is_elsewhere(address.replace("{here}", str(here)), [here]), address


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": [x]}, lambda x: {x: 1}, lambda x: ("seen", (x,))])
@pytest.mark.parametrize("folder", ["../x", "/etc", "~", "~root/x", "$HOME/x", "a\\b", "x\0y", "s3://b/x", Path("/x")])
def test_folders_in_any_form(here, wrap, folder):
    assert Outside.FOLDER.is_elsewhere(wrap(folder), [here])
    assert not Outside.FOLDER.is_elsewhere(wrap("seen/x"), [here])


def test_a_link_in_a_folder_leads_elsewhere(here):
    (here / "link").symlink_to("..")
    assert Outside.FOLDER.is_elsewhere("link/x", [here])
    assert Outside.ADDRESS.is_elsewhere(f"file://{here}/link/x", [here])


def test_arguments_of_unknown_use(here):
    for text in ("rgb_array", "16:9", "ALE/Pong-v5", "module:Class", "1.5", "video", "", "127.0.0.1:80", "x y", "a..b"):
        assert not Outside.ARGUMENTS.is_elsewhere({"a": [text, 1, None, True]}, [here]), text
    for text in (
        "/etc",
        "../x",
        "a/../../x",
        "~/x",
        "http://evil.example",
        "s3://local/x",
        "evil.example:80",
        "10.0.0.1",
    ):
        assert Outside.ARGUMENTS.is_elsewhere({"a": [1, {"b": text}]}, [here]), text


def test_every_text_of_plain_data():
    assert list(texts({"a": [1, "b", {"c": None, "d": True}], "e": ("f",)})) == ["a", "1", "b", "c", "d", "e", "f"]
