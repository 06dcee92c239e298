"""What a paper prints is what comes out of the scores that its authors publish.

`diamond.csv` has the score of each run of DIAMOND (Alonso et al. 2024, arXiv 2405.12399) on the 26 games of Atari 100k,
which its authors publish under the MIT licence: github.com/eloialonso/diamond, results/data/DIAMOND.json.
"""

from pathlib import Path

import pytest
from maze_statistics import aggregate, bundled, final_scores, normalise, read_csv

FILE = Path(__file__).with_name("diamond.csv")
PRINTED = {"mean": 1.459, "iqm": 0.641}
"""Table 1 of the paper."""


def test_the_aggregates_of_a_paper_are_reproduced_from_csv():
    raw = final_scores(read_csv(FILE))
    games = raw["DIAMOND"]
    assert (len(games), {len(scores) for scores in games.values()}) == (26, {5})
    found = aggregate(normalise(raw, bundled("atari", games)), resamples=500)["DIAMOND"]
    for name, printed in PRINTED.items():
        estimate = getattr(found, name)
        assert estimate.value == pytest.approx(printed, abs=0.0005)
        assert estimate.low < printed < estimate.high
