"""A temporary folder that does not outlive its process, however that ends."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path


class GuardedFolder:
    """A new folder, removed by `close`, or by another process some seconds after this one was killed.

    Args:
        prefix: how its name begins.
        within: the folder that it is made in; None: that for temporary files.
        patience: these seconds, in which processes that write there end, too.
    """

    def __init__(self, prefix: str, within: Path | None = None, patience: float = 10.0) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
        self._guard = _guard_of(self.path, patience)

    def close(self) -> None:
        """Remove it; safe to call twice. Where something still writes there, the other process tries again later."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._guard is not None and not self.path.exists():
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


def _guard_of(folder: Path, patience: float) -> subprocess.Popen[bytes] | None:
    """Return the process that removes a folder; None where there is no shell. Its input ends with this process."""
    shell = shutil.which("sh")
    if shell is None:
        return None
    script = f'read -r line; sleep {patience:g}; rm -rf -- "$0"'
    nowhere = subprocess.DEVNULL  # whoever reads the output of this process need not wait for the guard
    return subprocess.Popen(  # noqa: S603 — our own words
        [shell, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=nowhere,
        stderr=nowhere,
        start_new_session=True,
    )
