"""Convert text to numbers."""

from __future__ import annotations

import re
import zlib
from collections.abc import Generator
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import TransformObservation
from pydantic import Field

from maze_core import Plugin, hookimpl
from maze_wrappers.leaves import Env, LeafConfig, Part, choose, every_leaf, rebuilt, reserved

_WORD = re.compile(r"\w+")


class TokenizeConfig(LeafConfig):
    """The parameters of `tokenize`."""

    length: int = Field(default=8, ge=1, le=10_000)
    """Maximum number of words; further words are cut off."""
    vocabulary: int = Field(default=32, ge=2, le=1_000_000)
    """Number of word indices, from 1; 0 is padding. Not used with `words`."""
    words: tuple[str, ...] = ()
    """Known words in lower case, numbered in this order; all other words share one more number. Without
    it, a word's number is its hash, so two words may share a number."""


class Tokenize(Plugin):
    """Convert each text to the numbers of its first words, a MultiDiscrete."""

    Config = TokenizeConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        leaves = every_leaf(env.observation_space)
        chosen = choose(leaves, self.config, _no_text, reserved(env))
        part = Part(spaces.MultiDiscrete([self._numbers] * self.config.length), self._tokens)
        whole = rebuilt(env.observation_space, dict.fromkeys(chosen, part), "observation")
        return TransformObservation(env, whole.function, whole.space)

    @property
    def _numbers(self) -> int:
        """Return the size of the number range, including 0."""
        config: TokenizeConfig = self.config
        return len(config.words) + 2 if config.words else config.vocabulary + 1

    def _tokens(self, text: Any) -> np.ndarray:
        tokens = np.zeros(self.config.length, np.int64)
        words = _WORD.findall(str(text).lower())[: self.config.length]
        tokens[: len(words)] = [self._number(word) for word in words]
        return tokens

    def _number(self, word: str) -> int:
        words: tuple[str, ...] = self.config.words
        if words:
            return words.index(word) + 1 if word in words else len(words) + 1
        count: int = self.config.vocabulary
        return zlib.crc32(word.encode()) % count + 1  # the same in every process, unlike `hash`


def _no_text(space: Space[Any]) -> str | None:
    # Text spaces that do not derive from Text, such as MiniGrid's missions, have the same dtype.
    is_text = isinstance(space, spaces.Text) or (space.dtype is not None and np.dtype(space.dtype).kind == "U")
    return None if is_text else "is not a text"
