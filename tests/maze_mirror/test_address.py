"""Which addresses are accepted, and that no message and no file holds a secret."""

import sys

import pytest
from maze_mirror.address import checked, masked, reason
from maze_mirror.callback import MirrorConfig
from maze_mirror.store import check_installed

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.assembly import assemble


@pytest.mark.parametrize(
    "address",
    ["s3://bucket/runs/first", "file:///mnt/x", "memory://a", "sftp://me@host:22/runs/a", "abfs://c@acc.dfs.example/x"],
)
def test_usual_addresses_are_accepted(address):
    assert checked(address) == checked(address + "/") == address
    assert masked(address) == address


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("runs/first", "no address"),
        ("/mnt/x", "no address"),
        ("://x", "no address"),
        ("S3 ://x", "no address"),
        ("s3://a\x1b[2J/b", "no address"),
        ("s3://", "names no folder"),
        ("s3:///", "names no folder"),
        ("file:///a/../b", "names no folder"),
        ("file://mnt/x", "depends on the current folder. Next: file:///mnt/x"),
        ("sftp://me:secret@host/x", "holds a password"),
        ("sftp://me:sec/ret@host/x", "holds a password"),
        ("https://host/x?sig=secret", "holds options"),
        ("az://c/x#secret", "holds options"),
        ("simplecache::s3://b/x", "no address"),
        ("zip://secret.zip::s3://b/x", "several file systems"),
    ],
)
def test_other_addresses_are_refused_without_showing_secrets(address, words):
    with pytest.raises(ValueError, match=words) as caught:
        checked(address)
    assert "\x1b" not in str(caught.value)
    if "zip" not in address:
        assert "secret" not in str(caught.value)


def test_a_password_never_becomes_part_of_a_configuration():
    flags = {"callbacks.mirror.to": "sftp://me:secret@host/x"}
    with pytest.raises(ConfigError, match=r"callbacks\.mirror\.to: sftp://me:\*\*\*@host/x holds a pass") as caught:
        assemble("ppo", "CartPole-v1", preset="none", flags=flags)
    assert "secret" not in str(caught.value)
    assert "Next: " in str(caught.value)


def test_the_address_is_required_and_nothing_else():
    with pytest.raises(ConfigError, match=r"callbacks\.mirror\.to: is required \(Address of a folder"):
        assemble("ppo", "CartPole-v1", preset="none", flags={"callbacks.mirror": {}})
    config = MirrorConfig(to="memory://a")
    assert (config.minutes, config.background) == (0.0, True)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)  # as if it were not installed; no other test asks for it
    with pytest.raises(ConfigError, match="to: gs:// needs the package gcsfs, which is not installed") as caught:
        check_installed("gs://bucket/x", "to")
    assert "Next: pip install gcsfs" in str(caught.value)


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ConfigError, match="to: there is no file system nowhere://"):
        check_installed("nowhere://x", "to")


def test_messages_hide_what_the_environment_keeps_secret(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("FSSPEC_SFTP_PASSWORD", "quiet-please")
    text = reason(RuntimeError("key hush-hush,\nquiet-please at https://me:pw@host/x\x1b[2J"))
    assert text == "key ***, *** at https://***@host/x\\x1b[2J"
    assert reason(OSError(28, "No space left on device", "/x")) == "No space left on device"
    assert reason(KeyError()) == "KeyError"
