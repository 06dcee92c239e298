"""A file system in memory that breaks on demand, and what tests of copies share."""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from typer.testing import CliRunner

from maze_core.cli.main import app


class Killed(BaseException):
    """As kill -9: whoever catches it finds that nothing can be done any more."""


class Breaking(MemoryFileSystem):
    """Counts what changes files. From operation `at` on it is `dead`, or operations fail while `failing` says why."""

    protocol = "breaking"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    cachable = False
    at: ClassVar[int | None] = None
    done: ClassVar[int] = 0
    dead: ClassVar[bool] = False
    failing: ClassVar[Exception | None] = None
    writes: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Return the path in an address."""
        return super()._strip_protocol(str(path).replace("breaking://", "memory://"))

    @classmethod
    def revive(cls, at: int | None = None) -> None:
        """Work again, until operation `at`."""
        cls.at, cls.done, cls.dead, cls.failing, cls.writes = at, 0, False, None, []

    @classmethod
    def _step(cls) -> bool:
        """Count an operation; True if it is the one that kills."""
        if cls.dead:
            raise Killed
        if cls.failing is not None:
            raise cls.failing
        cls.done += 1
        cls.dead = cls.done - 1 == cls.at
        return cls.dead

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        """Write a file; half of it if the process is killed by that."""
        dies = self._step()
        super().pipe_file(path, value[: len(value) // 2] if dies else value, mode, **kwargs)
        if dies:
            raise Killed
        self.writes.append(path.rpartition("/")[2])

    def rm_file(self, path: str) -> None:
        """Delete a file, unless the process is killed before."""
        if self._step():
            raise Killed
        super().rm_file(path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        """List a folder, unless the file system fails."""
        if self.failing is not None:
            raise self.failing
        return super().ls(path, detail, **kwargs)


fsspec.register_implementation("breaking", Breaking, clobber=True)


@pytest.fixture
def breaking():
    """The class of the file system `breaking://`, working."""
    Breaking.revive()
    yield Breaking
    Breaking.revive()
    Breaking.store.clear()


@pytest.fixture
def address():
    """A new address in memory."""
    return f"breaking://copies/{secrets.token_hex(4)}"


@pytest.fixture
def maze():
    """`maze(*words)`: call the command in this process; the result, which must have exit code `code`."""

    def call(*words: object, code: int = 0) -> Any:
        result = CliRunner().invoke(app, list(map(str, words)))
        raised = f"{type(result.exception).__name__}: {result.exception}" if result.exception else ""
        assert result.exit_code == code, result.output + raised
        return result

    return call
