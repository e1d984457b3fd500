"""What has read and written a tile of SBUF or PSUM, or a variable in HBM."""

from collections.abc import Hashable

from npuviz.targets.neuroncore.isa import Space

Box = tuple[int, int, int, int]
"""(first partition, end partition, first byte, end byte), ends excluded."""


class Region:
    """What has read and written one tile (or variable).

    prior   channel -> done up to, of work on the bytes before the region was made
    settled  channels whose work is already behind all of `prior`
    writes, reads  (box, channel) -> position of the last such access
    """

    __slots__ = ("prior", "reads", "settled", "writes")

    def __init__(self) -> None:
        self.prior: dict[int, int] = {}
        self.writes: dict[tuple[Box, int], int] = {}
        self.reads: dict[tuple[Box, int], int] = {}
        self.settled: set[int] = set()

    def restart(self, done: dict[int, int]) -> None:
        """Forget all accesses: whoever comes waits for everything in `done`."""
        self.writes.clear()
        self.reads.clear()
        self.settled.clear()
        self.prior = dict(done)

    def inherit(self, old: "Region") -> None:
        """Whoever writes here must wait for everything done to `old`, whose bytes these were."""
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

    users   open scopes that hold it; 0: closed, its bytes may be taken
    keys    cache key -> box of the HBM patterns that it holds copies of
    chance  was used since the allocator last passed it
    core, partitions, tensor  for people: where it is, how many partitions were asked for, the graph
            tensor that it holds (-1: none)
    name    what a program's text calls it, "" if it does not
    first, last  (channel, position) of the first and the last instruction that touch it
    """

    __slots__ = (
        "address",
        "chance",
        "core",
        "first",
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
        self.users = 1
        self.keys: dict[Hashable, Box] = {}
        self.chance = False
        self.core = 0
        self.partitions = 128
        self.tensor = -1
        self.name = ""
        self.first: tuple[int, int] | None = None
        self.last: tuple[int, int] | None = None

    def forget(self, box: Box) -> None:
        """Bytes change: what they were copies of, they are no more."""
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
