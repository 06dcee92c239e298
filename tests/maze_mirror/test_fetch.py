"""`maze fetch`: what an address holds may come from anyone, and a folder that exists is never touched."""

import hashlib
import json
import os
import shutil
import signal
from types import SimpleNamespace

import pytest
from maze_mirror import fetching
from maze_mirror.fetching import fetch_run
from maze_mirror.index import Index, Part
from maze_mirror.store import Store

from maze_core.base.errors import ConfigError, MazeError, RunError

DATA = b"hello"
PART = Part(hashlib.sha256(DATA).hexdigest(), len(DATA))


@pytest.fixture
def store(breaking, address):
    """The store at the address, with one part."""
    store = Store(address)
    store.write(PART.name, DATA)
    return store


def planted(store, files, number=1, odd=None):
    """Write an index as someone else could."""
    facts = {"format": 1, "number": number, "run": "0" * 16, "sessions": ["1" * 8], "epoch": 3, "files": files}
    body = json.dumps({**facts, **(odd or {})}).encode()
    name = f"index-{number:08d}-11111111.json"
    store.write(name, hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    return name


def parts(part=PART):
    return [[part.sha256, part.size]]


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/x", "a/../../x", "", ".", "a//b", "a/", "/", "./x", "x\0y", "\ud800", "a" * 2000, ".."],
)
def test_no_path_leaves_the_folder(store, address, tmp_path, path):
    planted(store, {"fine": parts(), path: parts()})
    with pytest.raises(RunError, match="it names the path") as caught:
        fetch_run(address, tmp_path / "inner" / "run")
    assert str(caught.value).isprintable()
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


@pytest.mark.parametrize(
    "files",
    [
        {"a": parts(), "a/b": parts()},
        {"a" * 300: parts()},
        {"mirror.json/x": parts()},
    ],
)
def test_paths_that_no_folder_can_have_leave_nothing(store, address, tmp_path, files):
    planted(store, files)
    with pytest.raises(ConfigError, match="cannot be written"):
        fetch_run(address, tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "files",
    [
        [],
        None,
        {"a": 1},
        {"a": [1]},
        {"a": [["x", 5]]},
        {"a": [["../../etc/passwd", 5]]},
        {"a": [["0" * 64, -1]]},
        {"a": [["0" * 64, 0]]},
        {"a": [["0" * 64, True]]},
        {"a": [["0" * 64, 2**40]]},
        {"a": [["0" * 64, 1, 2]]},
    ],
)
def test_odd_lists_of_files_are_refused(store, address, tmp_path, files):
    planted(store, files)
    with pytest.raises(RunError):
        fetch_run(address, tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "odd",
    [
        {"format": 2},
        {"number": -1},
        {"number": "1"},
        {"number": 2},
        {"run": "../x"},
        {"run": 1},
        {"sessions": []},
        {"sessions": ["x"]},
        {"sessions": "11111111"},
        {"epoch": 1.5},
    ],
)
def test_odd_indexes_are_refused(store, address, tmp_path, odd):
    planted(store, {"a": parts()}, odd=odd)
    with pytest.raises(RunError):
        fetch_run(address, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_bomb_of_json_is_refused(store, address, tmp_path):
    body = b"[" * 100_000
    store.write("index-00000001-11111111.json", hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(RunError, match="nested too deeply"):
        fetch_run(address, tmp_path / "run")


def test_more_than_the_disk_holds_is_refused(store, address, tmp_path, monkeypatch):
    planted(store, {f"{number}": parts() for number in range(10)})
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=100, free=49))
    with pytest.raises(ConfigError, match="the disk is full"):
        fetch_run(address, tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data", [b"jello", b"hell", b"hello!", b""])
def test_damaged_parts_are_refused(store, address, tmp_path, data):
    planted(store, {"a": parts()})
    store.write(PART.name, data)
    if data == b"hello!":  # what follows is not read, and the beginning is right
        assert (fetch_run(address, tmp_path / "run")[0] / "a").read_bytes() == DATA
        return
    with pytest.raises(RunError, match=f"is damaged: {PART.name} is damaged"):
        fetch_run(address, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_missing_part_is_named_and_an_older_whole_copy_is_used(store, address, tmp_path):
    other = Part("0" * 64, 5)
    planted(store, {"a": parts(other)}, number=2)
    with pytest.raises(RunError, match=f"is damaged: {other.name} is missing"):
        fetch_run(address, tmp_path / "run")
    planted(store, {"a": parts()}, number=1)
    assert fetch_run(address, tmp_path / "run")[1].number == 1


def test_an_index_that_was_cut_short_is_passed_over(store, address, tmp_path):
    planted(store, {"a": parts()}, number=1)
    name = planted(store, {"b": parts()}, number=2)
    store.write(name, store.read(name, 10**6)[:100])
    assert sorted(path.name for path in fetch_run(address, tmp_path / "run")[0].iterdir()) == ["a", "mirror.json"]


def test_a_run_that_is_copied_anew_while_it_is_fetched(store, address, tmp_path, monkeypatch):
    planted(store, {"a": parts()}, number=1)
    new = b"other"
    part, read = Part(hashlib.sha256(new).hexdigest(), 5), Store.read

    def overtaken(self, name, limit):
        if name == PART.name:
            monkeypatch.setattr(Store, "read", read)
            store.write(part.name, new)
            planted(store, {"a": parts(part)}, number=2)
            store.remove(PART.name)
        return read(self, name, limit)

    monkeypatch.setattr(Store, "read", overtaken)
    folder, index = fetch_run(address, tmp_path / "run")
    assert (folder / "a").read_bytes() == new
    assert index.number == 2


@pytest.mark.parametrize("kind", ["folder", "empty", "file", "link"])
def test_what_exists_is_never_overwritten(store, address, tmp_path, kind, maze):
    planted(store, {"a": parts()})
    run = tmp_path / "run"
    if kind in ("folder", "empty"):
        run.mkdir()
    if kind == "folder":
        (run / "a").write_text("mine")
    elif kind == "file":
        run.write_text("mine")
    elif kind == "link":
        run.symlink_to(tmp_path / "nowhere")
    before = [(path, path.is_file() and path.read_text()) for path in tmp_path.rglob("*")]
    said = maze("fetch", address, run, code=2).output
    assert f"FOLDER: {run} exists already" in said
    assert "Next: name a new folder." in said
    assert before == [(path, path.is_file() and path.read_text()) for path in tmp_path.rglob("*")]


def test_the_default_folder_has_the_name_of_the_address(store, address, tmp_path, monkeypatch, maze):
    planted(store, {"a": parts()})
    monkeypatch.chdir(tmp_path)
    maze("fetch", address + "/")
    assert (tmp_path / "runs" / address.rpartition("/")[2] / "a").read_bytes() == DATA


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("memory://nothing/here", "there is no copy of a run at memory://nothing/here"),
        ("sftp://me:secret@host/x", "holds a password"),
        ("somewhere", "is no address"),
        ("nowhere://x", "there is no file system nowhere://"),
    ],
)
def test_addresses_without_a_run_are_refused(address, words, maze, tmp_path):
    said = maze("fetch", address, tmp_path / "run", code=2).output
    assert f"ADDRESS: {words}" in said or words in said
    assert "secret" not in said
    assert "Traceback" not in said


def test_a_copy_that_has_only_begun_is_refused(breaking, address, tmp_path):
    store = Store(address)
    index = Index(1, "0" * 16, ("1" * 8,), 0)
    store.write(index.name, index.encode())
    with pytest.raises(ConfigError, match="holds no complete copy yet"):
        fetch_run(address, tmp_path / "run")


def test_an_address_that_cannot_be_read_is_one_line(breaking, address, tmp_path):
    breaking.failing = TimeoutError("https://me:secret@host timed out\n\x1b[2J")
    with pytest.raises(RunError) as caught:
        fetch_run(address, tmp_path / "run")
    assert str(caught.value) == f"{address} cannot be read: https://***@host timed out \\x1b[2J"


def test_an_interrupted_fetch_leaves_nothing(store, address, tmp_path, monkeypatch):
    planted(store, {"a": parts()})

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching.Identity, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch_run(address, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(store, address, tmp_path):
    planted(store, {"a": parts()})
    (tmp_path / "file").write_text("")
    with pytest.raises(MazeError, match=f"^FOLDER: {tmp_path}/file/run cannot be written"):
        fetch_run(address, tmp_path / "file" / "run")
    assert os.listdir(tmp_path) == ["file"]  # noqa: PTH208


def half(parent, name=".other run.0123abcd.new"):
    """A folder as a killed fetch leaves it."""
    folder = parent / name
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "half").write_text("ha")
    return folder


def test_a_killed_fetch_is_cleared_away_by_the_next_one(store, address, tmp_path):
    """In a process of its own, which is killed in the middle; the next one has the same name, or another."""
    planted(store, {"a": parts()})
    for name in ("run", "another"):
        child = os.fork()
        if child == 0:
            Part.check = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            fetch_run(address, tmp_path / "fetched" / "run")
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        (left,) = (tmp_path / "fetched").glob(".*")
        assert left.is_dir()
        fetch_run(address, tmp_path / "fetched" / name)
        assert not left.exists()
        shutil.rmtree(tmp_path / "fetched" / name)


def test_a_fetch_that_goes_on_beside_this_one_is_left_alone(store, address, tmp_path, monkeypatch):
    planted(store, {"a": parts()})
    check = Part.check

    def and_meanwhile(*arguments):
        monkeypatch.setattr(Part, "check", check)
        assert fetch_run(address, tmp_path / "second")[0].exists()
        return check(*arguments)

    monkeypatch.setattr(Part, "check", and_meanwhile)
    fetch_run(address, tmp_path / "first")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]  # noqa: PTH208


def test_only_what_a_fetch_left_is_removed_and_no_link_is_followed(store, address, tmp_path):
    planted(store, {"a": parts()})
    parent, elsewhere = tmp_path / "runs", half(tmp_path, "elsewhere")
    left = [half(parent), half(parent, ".run.01234567.new")]
    old = parent / ".old.01234567.new"
    old.mkdir()
    os.utime(old, (1, 1))
    (left[0] / "out").symlink_to(elsewhere)
    kept = [half(parent, name) for name in (".x.new", ".x.0123456.new", "x.01234567.new", ".x.01234567.old", "..new")]
    kept.append(parent / ".just begun.01234567.new")
    kept[-1].mkdir()
    kept.append(parent / ".a file.01234567.new")
    kept[-1].write_text("being written")
    kept.append(parent / ".link.01234567.new")
    kept[-1].symlink_to(elsewhere)
    fetch_run(address, parent / "run")
    assert not any(folder.exists() for folder in (*left, old))
    assert all(os.path.lexists(path) for path in kept)
    assert (elsewhere / "checkpoints" / "half").read_text() == "ha"


@pytest.mark.parametrize("name", ["index-00000002-11111111.json", PART.name])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_neither_pipes_nor_links_of_this_machine_are_read_or_written(tmp_path, name, kind):
    place, outside = tmp_path / "copy", tmp_path / "outside"
    place.mkdir()
    store = Store(f"file://{place}")
    store.write(PART.name, DATA)
    planted(store, {"a": parts()})
    outside.write_bytes(DATA)
    (place / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place / name)
    else:
        (place / name).symlink_to(outside)
    with pytest.raises(RunError, match=r"not a regular file|is a link"):
        fetch_run(f"file://{place}", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(OSError, match=r"not a regular file|is a link"):
        store.write(name, b"changed")
    assert outside.read_bytes() == DATA
