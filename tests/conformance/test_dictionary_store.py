"""A store that was written against `dibs.testing` alone passes the whole suite."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from dibs.testing import StoreConformance

from .dictionary_store import Data, DictionaryStore

if TYPE_CHECKING:
    from dibs.testing import Clock


class TestDictionary(StoreConformance):
    lacks = frozenset({"replacement"})

    def make_store(self, folder: str, clock: Clock) -> DictionaryStore:
        return DictionaryStore(self._kept.setdefault(folder, Data()), clock)

    @cached_property
    def _kept(self) -> dict[str, Data]:
        """Each store's data by its folder: the same folder is the same store."""
        return {}
