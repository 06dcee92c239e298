"""Addresses, archives, manifests, cards and servers of others: refused in a line, nothing written, nothing waits."""

import io
import json
import random
import stat
import struct
import time
import zipfile
from pathlib import Path

import pytest
from maze_compare.records import find_records
from maze_publish import card, manifest
from maze_publish.address import parse
from maze_publish.archive import Archive, packed
from maze_publish.download import download
from maze_publish.limits import Limits
from maze_publish.opening import fetched, find, open_policy_at

from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.run.saved.found_run import find_run

QUICK = Limits(bytes=300_000, seconds=0.6, pause=0.2)


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def found(address, folder, limits):
    if fetched(address, folder, limits) is None:
        raise ConfigError("there is nothing")


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """`refused(address, limits)`: fetching is refused in printable characters, soon, and writes nothing."""
    monkeypatch.chdir(tmp_path)

    def check(address, limits=QUICK, problem="."):
        before, began = everything(tmp_path), time.monotonic()
        with pytest.raises(MazeError, match=problem) as caught:
            found(str(address), tmp_path / "got", limits)
        assert time.monotonic() - began < 5
        assert str(caught.value).replace("\n", "").isprintable()
        assert everything(tmp_path) == before
        return str(caught.value)

    return check


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zoo:",
        "zoo:../../etc/passwd",
        "zoo:a/b",
        "zoo:\x1b[31mred",
        "zoo:" + "a" * 5000,
        "file:relative",
        "file://host/share",
        "file:///a/../../etc/passwd",
        "http://",
        "http://host:99999/x.zip",
        "http://host:0/x.zip",
        "http://[::1/x.zip",
        "http://user:secret@host/x.zip",
        "https://host/folder?token=secret",
        "http://host/x.zip\r\nHost: other",
        "http://host/a b.zip",
        "http://höst/x.zip",
        "s3://user:secret@bucket/x",
        "s3://bucket/../x",
        "s3://bucket/x?secret=1",
        "s3://",
        "simplecache::s3://bucket/x",
        "x.zip#sha256=0",
        "x.zip#sha256=" + "G" * 64,
        "x.zip#md5=" + "0" * 32,
        "x.zip#sha256=" + "0" * 64 + "\n",
        "javascript:alert(1)",
        "data:text/plain,x",
        "\ud800",
    ],
)
def test_odd_addresses_are_refused(refused, text):
    said = refused(text)
    assert "secret" not in said


@pytest.mark.parametrize("scheme", ["ftp", "data", "ldap", "zip", "reference", "local", "github", "nosuch"])
def test_another_scheme_opens_nothing(refused, scheme):
    refused(f"{scheme}://127.0.0.1:9/x.zip", problem="names no store")


def zipped(entries, comment=b""):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for entry, data in entries:
            file.writestr(entry, data)
        file.comment = comment
    return buffer.getvalue()


def named(name, mode=stat.S_IFREG | 0o644, method=zipfile.ZIP_DEFLATED):
    entry = zipfile.ZipInfo(name)
    entry.external_attr, entry.compress_type = mode << 16, method
    return entry


def with_more(files, name, data=b"x", mode=stat.S_IFREG | 0o644, method=zipfile.ZIP_DEFLATED):
    entries = [(named(each), content) for each, content in files.items()]
    return zipped([*entries, (named(name, mode, method), data)])


def patched(data, offset, fmt, value):
    """Return an archive with a changed number in its last record."""
    changed = bytearray(data)
    struct.pack_into(fmt, changed, len(data) - 22 + offset, value)
    return bytes(changed)


ARCHIVES = {
    "a path that leaves": lambda files: with_more(files, "../escape"),
    "an absolute path": lambda files: with_more(files, "/tmp/escape"),
    "a path of Windows": lambda files: with_more(files, "..\\escape"),
    "a further file": lambda files: with_more(files, "sitecustomize.py"),
    "a further file in a folder": lambda files: with_more(files, "checkpoints/best/model.pt"),
    "a link": lambda files: with_more(files, "film.mp4", b"/etc/passwd", stat.S_IFLNK | 0o777),
    "a pipe": lambda files: with_more(files, "film.mp4", b"", stat.S_IFIFO | 0o644),
    "a folder": lambda files: with_more(files, "film.mp4/", b"", stat.S_IFDIR | 0o755),
    "another compression": lambda files: with_more(files, "film.mp4", b"x", method=zipfile.ZIP_BZIP2),
    "many files": lambda files: zipped([(named(f"{number}"), b"") for number in range(200)]),
    "a comment": lambda files: zipped([(named(each), data) for each, data in files.items()], b"PK\x05\x06" * 8),
    "nothing": lambda files: zipped([]),
    "no file": lambda files: b"",
    "noise": lambda files: random.Random(1).randbytes(5000),
    "a page": lambda files: b"<html><script>alert(1)</script>" * 20,
    "half": lambda files: packed(files)[: len(packed(files)) // 2],
    "a directory elsewhere": lambda files: patched(packed(files), 16, "<L", 0xFFFFFFFE),
    "many files by its last record": lambda files: patched(patched(packed(files), 8, "<H", 60000), 10, "<H", 60000),
    "no manifest": lambda files: packed({name: data for name, data in files.items() if name != manifest.NAME}),
    "no weights": lambda files: packed({name: data for name, data in files.items() if "model" not in name}),
    "changed weights": lambda files: packed({**files, manifest.OF_CHECKPOINT[1]: b"x" * 100}),
    "a bomb": lambda files: packed({**files, manifest.OF_CHECKPOINT[1]: b"\0" * 50_000_000}),
    "a bomb as manifest": lambda files: packed({**files, manifest.NAME: b" " * 50_000_000}),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archives_of_others(refused, forged, tmp_path, kind):
    (tmp_path / "x.zip").write_bytes(ARCHIVES[kind](forged()))
    refused(tmp_path / "x.zip")


def test_two_files_of_one_name(refused, forged, tmp_path):
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = with_more(forged(), "config.yaml", b"env: evil")
    (tmp_path / "x.zip").write_bytes(data)
    refused(tmp_path / "x.zip", problem="two files of one name")


def test_an_encrypted_file(refused, forged, tmp_path):
    data = bytearray(packed(forged()))
    place = data.rfind(b"PK\x01\x02")
    data[place + 8] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    refused(tmp_path / "x.zip", problem="no plain file")


def listed(**files):
    return lambda right: {**right, "files": {**right["files"], **files}}


ONE = {"bytes": 1, "sha256": "0" * 64}
MANIFESTS = {
    "no JSON": lambda right: b"{",
    "a list": lambda right: [],
    "deep": lambda right: b"[" * 100_000,
    "deep below": lambda right: b'{"a":' * 50_000,
    "a long number": lambda right: b'{"format":' + b"1" * 10_000 + b"}",
    "another format": lambda right: {**right, "format": 2},
    "no files": lambda right: {"format": 1},
    "files of a list": lambda right: {"format": 1, "files": []},
    "a path that leaves": listed(**{"../x": ONE}),
    "an absolute path": listed(**{"/etc/x": ONE}),
    "code": listed(**{"conftest.py": ONE}),
    "a checkpoint of pickles": listed(**{"checkpoints/best/model.pkl": ONE}),
    "itself": listed(**{manifest.NAME: ONE}),
    "a name with an escape": listed(**{"\x1b]0;title\x07": ONE}),
    "a name of 10 kB": listed(**{"a" * 10_000: ONE}),
    "a negative size": listed(**{"film.mp4": {**ONE, "bytes": -1}}),
    "a size that is true": listed(**{"film.mp4": {**ONE, "bytes": True}}),
    "a size of a float": listed(**{"film.mp4": {**ONE, "bytes": 1e3}}),
    "terabytes": listed(**{"film.mp4": {**ONE, "bytes": 2**42}}),
    "a sum that is a number": listed(**{"film.mp4": {**ONE, "sha256": 1}}),
    "a short sum": listed(**{"film.mp4": {**ONE, "sha256": "0"}}),
    "more about a file": listed(**{"film.mp4": {**ONE, "mode": 0o4777}}),
    "another sum": listed(**{"config.yaml": ONE}),
    "a file that is not there": listed(**{"film.mp4": ONE}),
}


@pytest.mark.parametrize("kind", MANIFESTS)
@pytest.mark.parametrize("form", ["folder", "archive"])
def test_manifests_of_others(refused, forged, tmp_path, form, kind):
    files = forged()
    made = MANIFESTS[kind](json.loads(files[manifest.NAME]))
    files[manifest.NAME] = made if isinstance(made, bytes) else json.dumps(made).encode()
    if form == "archive":
        (tmp_path / "x.zip").write_bytes(packed(files))
        refused(tmp_path / "x.zip")
        return
    write(tmp_path / "x", files)
    refused(tmp_path / "x")


def write(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("linked", ["config.yaml", "publication.json", "checkpoints", "checkpoints/best/state.json"])
def test_links_in_a_folder_are_not_followed(refused, forged, tmp_path, linked):
    write(tmp_path / "x", forged())
    (tmp_path / "x" / linked).rename(tmp_path / "elsewhere")
    (tmp_path / "x" / linked).symlink_to(tmp_path / "elsewhere")
    refused(tmp_path / "x")


def test_another_policy_in_the_place_of_a_pinned_one(refused, archive):
    refused(f"{archive()}#sha256={'0' * 64}", problem="is not the policy that the address names")


EVIL = "\x1b]0;owned\x07\u202e<script>alert(1)</script>[x](javascript:alert(1))`id`|\n# head ![](http://evil/x)"
CARDS = {
    "no JSON": b"{",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "nothing": b"{}",
    "nan": {"seconds": float("nan")},
    "a long name": {"name": "x" * 301},
    "a name that is a number": {"name": 1},
    "a negative seed": {"seed": -1},
    "true as a number": {"steps": True},
    "more": {"html": "<script>"},
    "many versions": {"versions": {str(number): "1" for number in range(1000)}},
    "a score that is a text": {"score": "500"},
}


@pytest.mark.parametrize("kind", CARDS)
def test_cards_of_others(refused, archive, contents, kind):
    made = CARDS[kind]
    if isinstance(made, dict):
        made = json.dumps(json.loads(contents[manifest.CARD]) | made).encode()
    refused(archive({manifest.CARD: made}), problem="is damaged")


def test_what_a_card_says_is_no_markup_and_no_sequence_of_a_terminal(archive, contents, maze, tmp_path):
    facts = json.loads(contents[manifest.CARD])
    texts = dict.fromkeys(("name", "algorithm", "environment", "source", "command", "note", "trained"), EVIL)
    score = facts["score"] | {"others": {EVIL: 1.0}}
    evil = facts | texts | {"imports": [EVIL], "versions": {EVIL: EVIL}, "score": score}
    path = archive({manifest.CARD: json.dumps(evil).encode(), manifest.PAGE: EVIL.encode()})
    said = maze("fetch", path, "--dir", tmp_path / "got").output
    assert said.replace("\n", "").isprintable()
    assert "# head" not in said.splitlines()
    page = card.page(card.decode(json.dumps(evil).encode()), None).decode()
    prose = "\n".join(line for line in page.splitlines() if not line.startswith("    "))
    assert "<" not in prose
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert not [line for line in page.splitlines() if line.startswith("# head")]
    assert "](javascript" not in prose
    assert "![](" not in prose
    assert "http://" not in prose


@pytest.mark.parametrize(
    "text",
    [
        "env: &a [*a]",
        "env: !!python/object/apply:os.system ['touch owned']",
        "env: {name: gymnasium, id: 'os:system'}",
        "env: {name: gymnasium, id: 'theirs:Env-v0'}",
        "callbacks: {x: 'theirs:Callback'}",
        "wrappers: ['theirs:Wrapper']",
        "model: {memory: {name: 'theirs.deep:Memory'}}",
        "x" * 200_000,
        "- 1",
    ],
)
def test_configurations_of_others_import_nothing(archive, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text("open('owned', 'w')")
    path = archive({"config.yaml": text.encode()})
    with pytest.raises(ConfigError) as caught:
        open_policy_at(str(path))
    assert str(caught.value).replace("\n", "").isprintable()
    assert not (tmp_path / "owned").exists()


def answer(body, status=200, **headers):
    def send(handler):
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


def redirect(place):
    return answer(b"", 302, Location=place)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x" * 65536)


def dripping(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.05)


def dripping_headers(handler):
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX-Long: ")
    while True:
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)


def silent(handler):
    time.sleep(2)


SERVERS = {
    "redirect to a file": redirect("file:///etc/passwd"),
    "redirect to FTP": redirect("ftp://127.0.0.1/x"),
    "redirect to data": redirect("data:text/plain,x"),
    "redirect to a path of JavaScript": redirect("javascript:alert(1)"),
    "redirect for ever": redirect("/again"),
    "redirect with an escape": redirect("http://127.0.0.1:1/\x1b[31m"),
    "redirect to a dead port": redirect("http://127.0.0.1:1/x"),
    "endless": endless,
    "byte by byte": dripping,
    "header byte by byte": dripping_headers,
    "silent": silent,
    "too large by its own word": answer(b"x", Content_Length="999999999"),
    "a length of 10 kB of digits": answer(b"x", Content_Length="9" * 10_000),
    "cut short": answer(b"x" * 10, Content_Length="1000"),
    "missing": answer(b"", 404),
    "an error": answer(b"\x1b[31m", 500),
    "an odd status": answer(b"", 299),
    "asks for a password": answer(b"", 401, WWW_Authenticate='Basic realm="x"'),
    "a page": answer(b"<html>sign in</html>", Content_Type="text/html"),
    "compressed": answer(b"\x1f\x8b" + b"\0" * 50, Content_Encoding="gzip"),
    "no HTTP": lambda handler: handler.wfile.write(b"SSH-2.0-OpenSSH\r\n"),
    "many headers": lambda handler: handler.wfile.write(b"HTTP/1.0 200 OK\r\n" + b"A: b\r\n" * 1000 + b"\r\n"),
    "a long header": lambda handler: handler.wfile.write(b"HTTP/1.0 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n"),
}


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("form", ["archive", "folder"])
def test_servers_of_others(refused, served, form, kind):
    refused(f"{served(SERVERS[kind])}/policy{'.zip' if form == 'archive' else ''}")


def test_a_redirect_of_http_is_followed(served):
    def serve(handler):
        (answer(b"here") if handler.path == "/there" else redirect("/there"))(handler)

    assert download(served(serve) + "/x", 10, QUICK, time.monotonic() + 1) == b"here"
    with pytest.raises(RunError, match="more than 3 bytes"):
        download(served(serve) + "/x", 3, QUICK, time.monotonic() + 1)


def test_changed_bytes_of_an_archive_never_become_a_policy(forged):
    right, numbers = forged(), random.Random(7)
    data = packed(right)
    for _ in range(400):
        changed = bytearray(data)
        for _ in range(numbers.choice((1, 1, 2, 8))):
            changed[numbers.randrange(len(changed))] ^= 1 << numbers.randrange(8)
        try:
            archive = Archive(bytes(changed[: numbers.choice((None, None, -1, -30))]))
            listed_files = manifest.decode(archive.read(manifest.NAME, manifest.MOST_BYTES), 10**9)
            found = {name: archive.read(name, part.size) for name, part in listed_files.items()}
            for name, part in listed_files.items():
                part.check(name, found[name])
        except (ValueError, FileNotFoundError):
            continue
        assert found == {name: right[name] for name in found}


def test_the_parser_of_addresses_takes_any_text():
    numbers = random.Random(3)
    pieces = [
        "zoo:",
        "http://",
        "s3://",
        "file:///",
        "#sha256=",
        "0" * 64,
        "..",
        "/",
        ":",
        "@",
        "?",
        "%2e",
        "[",
        "\0",
        "é",
    ]
    for _ in range(1500):
        text = "".join(numbers.choice(pieces) for _ in range(numbers.randrange(1, 8)))
        said = name_or_refusal(text)
        assert said.replace("\n", "").isprintable()
        assert said not in ("", ".", "..")


def name_or_refusal(text):
    try:
        name = parse(text).name
    except ConfigError as error:
        return str(error)
    assert "/" not in name
    return name


def test_a_right_policy_is_found(archive):
    assert find(parse(str(archive()))) is not None


def test_a_name_that_is_too_long_for_a_file_is_no_run():
    for find_all in (find_run, lambda path: find_records([path], skipped=print)):
        with pytest.raises(ConfigError, match="there is no such folder"):
            find_all(Path("é" * 150))
