"""SRAM entries of a layer while it is being built."""

from collections.abc import Hashable


class LayerEntries:
    """Entries of one kind (scratchpad or accumulator) of the layer being built, numbered densely."""

    def __init__(self) -> None:
        self.ids: dict[Hashable, int] = {}
        self.rows: list[list[int]] = []

    def number(self, key: Hashable, address: int, size: int) -> int:
        """Number of the entry `key`, made when the layer does not have it yet."""
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = len(self.rows)
            self.rows.append([address, size])
        elif size > self.rows[found][1]:
            self.rows[found][1] = size
        return found

    def placed_rows(self) -> list[list[int]]:
        """ENTRIES rows; those without an address follow each other behind all others."""
        end = max((address + size for address, size in self.rows if address >= 0), default=0)
        for row in self.rows:
            if row[0] < 0:
                row[0], end = end, end + row[1]
        return self.rows
