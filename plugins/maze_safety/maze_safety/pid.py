"""The control of a multiplier, as a pure function."""

from __future__ import annotations

from typing import NamedTuple


class Control(NamedTuple):
    """What a controller remembers."""

    integral: float = 0.0
    """The integral part, in units of the multiplier."""
    excess: float = 0.0
    """The smoothed excess of costs over the limit."""
    seen: bool = False
    """True once there was an excess to smooth."""


def pid(before: Control, excess: float, kp: float, ki: float, kd: float, smoothing: float) -> tuple[Control, float]:
    """Return what the controller remembers after an excess of costs over their limit, and the multiplier, at least 0.

    Stooke, Achiam and Abbeel, arXiv 2007.03964, Algorithm 2 and section 5, with the excess D = J_C - d:

        D' = a D' + (1 - a) D;  I = (I + K_I D)_+;  d = (D' - D'_before)_+;  lambda = (K_P D' + I + K_D d)_+

    The smoothed excess begins with the first one. The limit is constant, so the excess rises as the costs do.

    Args:
        before: what it remembers.
        excess: D, of this update.
        kp: K_P, of the proportional part.
        ki: K_I, of the integral part.
        kd: K_D, of the derivative part.
        smoothing: a, the share of the past.
    """
    smoothed = smoothing * before.excess + (1 - smoothing) * excess if before.seen else excess
    rise = max(0.0, smoothed - before.excess) if before.seen else 0.0
    integral = max(0.0, before.integral + ki * excess)
    return Control(integral, smoothed, True), max(0.0, kp * smoothed + integral + kd * rise)
