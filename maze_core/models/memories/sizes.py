"""The ranges of the settings that memories share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MemorySize = Annotated[int, Field(gt=0, le=8192)]
MemoryLayers = Annotated[int, Field(gt=0, le=16)]
MemoryWindow = Annotated[int, Field(gt=1, le=1024)]
