"""Dicts whose content is complete: a later change would reach some of their readers and not others."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from maze_core.base.errors import PluginError

V = TypeVar("V")


class ClosedDict(dict[str, V]):
    """A dict that refuses to be changed. Copies of it are plain dicts."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PluginError(
            "what is added here would reach some loggers and not others: an epoch's metrics, histograms and figures "
            "are complete when it is reported\nNext: return metrics from the hook on_metrics; put histograms and "
            "figures into run.histograms and run.figures there, or while the epoch is trained."
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
