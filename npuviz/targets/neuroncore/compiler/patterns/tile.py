"""Record the accesses to tiles of SBUF and PSUM, and to variables in HBM."""

from collections.abc import Hashable

from npuviz.targets.neuroncore.isa import Space

Box = tuple[int, int, int, int]
"""(first partition, end partition, first byte, end byte), ends excluded."""


class Region:
    """Record of the accesses to one tile (or variable).

    prior    channel -> done up to, of work on the bytes before the region was made
    settled  channels whose work already comes after all of `prior`
    writes, reads  (box, channel) -> position of the last such access
    """

    __slots__ = ("prior", "reads", "settled", "writes")

    def __init__(self) -> None:
        self.prior: dict[int, int] = {}
        self.writes: dict[tuple[Box, int], int] = {}
        self.reads: dict[tuple[Box, int], int] = {}
        self.settled: set[int] = set()

    def restart(self, done: dict[int, int]) -> None:
        """Forget all accesses; later ones wait for `done` (channel -> done up to)."""
        self.writes.clear()
        self.reads.clear()
        self.settled.clear()
        self.prior = dict(done)

    def inherit(self, old: "Region") -> None:
        """Make later writes wait for all accesses to `old`, which had these bytes before."""
        prior = self.prior
        for channel, count in old.prior.items():
            if count > prior.get(channel, 0):
                prior[channel] = count
        for records in (old.writes, old.reads):
            for (_, channel), position in records.items():
                if position >= prior.get(channel, 0):
                    prior[channel] = position + 1


class Tile(Region):
    """Bytes [address, address + size) of every partition.

    users   number of open scopes that hold it; 0: closed, its bytes may be taken
    keys    cache key -> box of the HBM patterns that it holds copies of
    chance  whether it was used since the allocator last passed it
    core, partitions, tensor  for display: core, number of requested partitions, graph tensor that it
    holds (-1: none)
    held    requested bytes of a partition: `size` without what rounding up adds
    name    its name in a program's text, or "";  aliases  further names there
    first, last  (channel, position) of the first and the last instruction that touch it
    """

    __slots__ = (
        "address",
        "aliases",
        "chance",
        "core",
        "first",
        "held",
        "keys",
        "last",
        "name",
        "partitions",
        "size",
        "space",
        "tensor",
        "users",
    )

    def __init__(self, space: Space, address: int, size: int) -> None:
        super().__init__()
        self.space = space
        self.address = address
        self.size = size
        self.held = size
        self.users = 1
        self.keys: dict[Hashable, Box] = {}
        self.chance = False
        self.core = 0
        self.partitions = 128
        self.tensor = -1
        self.name = ""
        self.aliases: tuple[str, ...] = ()
        self.first: tuple[int, int] | None = None
        self.last: tuple[int, int] | None = None

    def forget(self, box: Box) -> None:
        """Forget the HBM patterns in a box whose bytes change."""
        keys = self.keys
        if keys:
            p0, p1, b0, b1 = box
            for key in [
                key
                for key, held in keys.items()
                if held[2] < b1 and b0 < held[3] and held[0] < p1 and p0 < held[1]
            ]:
                del keys[key]

    def touch(self, channel: int, position: int) -> None:
        """Note the instruction that uses the tile now."""
        self.last = (channel, position)
        if self.first is None:
            self.first = self.last
