"""Identifiers as the API server gives them, from a seed: the same seed and requests give the same cluster."""

from __future__ import annotations

from random import Random

# apimachinery, util/rand: no vowels and nothing that looks like another sign, so that no suffix spells a word.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class Randomness:
    """The one source of chance in a simulated cluster."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = Random(f"{seed}/{name}")

    def uid(self) -> str:
        """A version 4 UUID."""
        text = f"{self._random.getrandbits(128):032x}"
        variant = "89ab"[int(text[16], 16) & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"

    def suffix(self, length: int = 5) -> str:
        """What `generateName` appends."""
        return "".join(self._random.choices(_ALPHABET, k=length))

    def between(self, low: float, high: float) -> float:
        """A number between the two."""
        return self._random.uniform(low, high)
