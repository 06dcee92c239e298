"""Attacks in a row: each case is tried in children of this process, which stays as it is."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from tests.attack.catalog import KINDS, Attack
from tests.attack.verdict import Verdict
from tests.attack.warm import warm_up

MEMORY_DISK = Path("/dev/shm")


class Session:
    """Tries cases by their names, `KIND/SUBJECT/CASE`. Close it when done: its folder goes."""

    def __init__(self, seed: int = 1) -> None:
        warm_up()
        here = str(MEMORY_DISK) if MEMORY_DISK.is_dir() else None
        self._scratch = Path(tempfile.mkdtemp(prefix="attack-", dir=here))
        self._seed = seed
        self._attacks: dict[str, Attack] = {}

    def attack(self, kind: str, subject: str) -> Attack:
        """What tries the cases of a kind on a subject; made when it is first asked for."""
        key = f"{kind}/{subject}"
        if key not in self._attacks:
            folder = self._scratch / kind / subject
            folder.mkdir(parents=True)
            self._attacks[key] = KINDS[kind].make(subject, folder, self._seed)
        return self._attacks[key]

    def names(self, kind: str, subject: str, count: int) -> list[str]:
        """The full names of so many cases, or of as many as there are."""
        return [f"{kind}/{subject}/{name}" for name in self.attack(kind, subject).names(count)]

    def varied(self, kind: str, subject: str) -> list[str]:
        """The full names of the first cases in which something is met that no case before it has."""
        attack = self.attack(kind, subject)
        met: set[str] = set()
        found = []
        for name, parts in attack.parts().items():  # type: ignore[attr-defined] — those whose cases have parts
            if not met.issuperset(parts):
                met.update(parts)
                found.append(f"{kind}/{subject}/{name}")
        return found

    def try_(self, name: str) -> dict[str, Any]:
        """One case; a fault of the attack itself is a problem, too."""
        kind, subject, case = name.split("/", 2)
        began = time.monotonic()
        try:
            verdict = self.attack(kind, subject).try_(case)
        except Exception:  # noqa: BLE001 — the other cases are tried all the same
            verdict = Verdict(name, kind, problems=[f"the attack itself failed: {traceback.format_exc()[-1500:]}"])
        verdict.seconds = time.monotonic() - began
        return verdict.record()

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def as_line(verdict: dict[str, Any]) -> str:
    """A verdict as a line of JSON."""
    return json.dumps(verdict) + "\n"
