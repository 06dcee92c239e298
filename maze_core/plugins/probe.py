"""Tests in a separate process which plugins can be imported.

A plugin may print, exit or crash at import; none of that may affect the calling command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence

from maze_core.base.errors import PluginError
from maze_core.plugins import discovery

TIMEOUT = 120.0
"""Seconds that one probing process may take."""

_CHILD = """
import json, sys
sys.path[:], wanted = json.loads(sys.argv.pop())
from maze_core.plugins.probe import answer
answer(wanted)
"""


def examine(claims: Sequence[discovery.Declaration], timeout: float = TIMEOUT) -> list[tuple[str, str]]:
    """Return state (`ok`, `broken`, `incompatible`, `not a plugin`) and detail of each claim.

    One process imports all of them. If it dies, the plugin being imported is broken and another process continues.
    """
    results: list[tuple[str, str]] = []
    while len(results) < len(claims):
        remaining = [_key(claim) for claim in claims[len(results) :]]
        answers, ending = _ask(remaining, timeout)
        results += answers
        if len(answers) < len(remaining):
            results.append(("broken", ending))
    return results


def answer(wanted: Sequence[Sequence[str]]) -> None:
    """In the child: print one line of JSON per plugin, kept apart from what plugins print themselves."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    claims = {tuple(_key(claim)): claim for claim in discovery.declarations()}
    for key in wanted:
        print(json.dumps(_state(claims[tuple(key)])), file=channel, flush=True)


def _state(claim: discovery.Declaration) -> tuple[str, str]:
    if reason := discovery.incompatibility(claim.distribution):
        return "incompatible", reason
    try:
        plugin = discovery.import_claim(claim)
    except PluginError as error:
        return "broken", discovery.describe(error.__cause__ or error)
    if reason := discovery.misfit(claim.kind, plugin):
        return "not a plugin", reason
    if claim.kind != "command":
        from maze_core.plugins.config.flags import json_schema

        try:
            json_schema(plugin.Config)
        except PluginError as error:
            return "not a plugin", str(error)
    return "ok", ""


def _ask(wanted: list[list[str]], timeout: float) -> tuple[list[tuple[str, str]], str]:
    """Return the answers of one process, and how it ended if some are missing."""
    # Compiled files would change the time of a folder of `sys.path`, and so the key of what is cached.
    command = [sys.executable, "-P", "-B", "-c", _CHILD, json.dumps([sys.path, wanted])]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "PYTHONSAFEPATH": "1"},  # for what a library starts when it is imported
        )
        output, ending = done.stdout, f"importing it ended the process with exit code {done.returncode}"
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        ending = f"importing it takes longer than {timeout:.0f} s"
    answers = [json.loads(line) for line in output.splitlines()]
    return [(state, detail) for state, detail in answers], ending


def _key(claim: discovery.Declaration) -> list[str]:
    return [claim.kind, claim.name, claim.distribution, claim.entry_point.value]
