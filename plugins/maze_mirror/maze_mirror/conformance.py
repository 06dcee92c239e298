"""The conformance kit's trial of the callback."""

from __future__ import annotations

import secrets
from typing import Any

from maze_devkit import Case, Trial

from maze_mirror.callback import Mirror


class _Elsewhere(Mirror):
    """Copies each run to an address of its own, since an address holds one run."""

    def __init__(self, config: Any) -> None:
        super().__init__(config.model_copy(update={"to": f"{config.to}/{secrets.token_hex(8)}"}))


def trial(case: Case) -> Trial:
    """Copy into this process's memory."""
    return Trial(parameters={"to": "memory://conformance"}, plugin=_Elsewhere)
