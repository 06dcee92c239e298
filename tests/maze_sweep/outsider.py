"""Searchers as authors outside of Maze write them: they need values first, block, or seed what is not theirs."""

from __future__ import annotations

import random
import time

import numpy as np
from maze_sweep.searchers.base import Point, Search, Searcher, Wait


class OneByOne(Searcher):
    """Like NGOpt of nevergrad: a point is asked for only when all before it have a value."""

    def setup(self, search: Search) -> int:
        self.best, self.told, self.asked = 1.0, {}, []
        return search.trials or 3

    def ask(self, number: int) -> Point | Wait:
        self.asked.append(number)
        if len(self.told) < number:
            return Wait()
        return {"algorithm.lr": min(4.0, 0.5 + max(self.told.values(), default=0.0) / 10)}

    def tell(self, number: int, point: Point, value: float | None) -> None:
        self.told[number] = value or 0.0


class Forever(OneByOne):
    """Waits although nothing is under way."""

    def ask(self, number: int) -> Point | Wait:
        return Wait() if number == 2 else super().ask(number)


class Seeding(OneByOne):
    """Seeds the global random numbers, and draws from them."""

    def ask(self, number: int) -> Point | Wait:
        random.seed(number)
        np.random.seed(number)
        return {"algorithm.lr": random.random()}


class Blocks(OneByOne):
    """Does not answer when it is asked for the second point."""

    def ask(self, number: int) -> Point | Wait:
        if number == 1:
            time.sleep(60)
        return super().ask(number)


class Stuck(OneByOne):
    """Does not even begin."""

    def setup(self, search: Search) -> int:
        print("setting up", flush=True)
        time.sleep(100)
        return 1


class Breaks(OneByOne):
    """Has an error where `point` or `value` or `judgement` of the second trial is due."""

    at = "point"

    def ask(self, number: int) -> Point | Wait:
        self.check("point", number)
        return {"algorithm.lr": 0.5 + number / 2}

    def tell(self, number: int, point: Point, value: float | None) -> None:
        self.check("value", number)

    def prune(self, number: int, epoch: int, value: float) -> bool:
        self.check("judgement", number)
        return False

    def check(self, at: str, number: int) -> None:
        if at == self.at and number == 1:
            raise ArithmeticError(f"no {at}")
