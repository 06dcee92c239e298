"""What to type for algorithms of the field that are presets here."""

from __future__ import annotations

CROSSQ = "It is a preset of SAC: maze train sac --preset crossq"
DROQ = "It is a preset of SAC: maze train sac --preset droq"
REDQ = "It is a preset of SAC: maze train sac --preset redq"
TQC = "It is a preset of SAC: maze train sac --preset tqc"
