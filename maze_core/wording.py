"""Words that depend on numbers."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 epoch`, `1,200 epochs`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
