"""Define the contents of a NEFF as frozen objects: header, subgraphs, queue sets, variables, DMA descriptors.

They are shared by the reader, the writer, the checks and everything built on them. The objects never own
the payload: big members are read-only views into the bytes of the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

Payload = bytes | memoryview
"""Content of a member: bytes, or a read-only view of bytes if it is big."""

ENGINE_KEYS = {"PE": "pe", "Activation": "act", "Pool": "pool", "DVE": "dve", "SP": "sp"}
"""NEFF name of an engine -> its key in def.json (reference 1.2, 4.4)."""
ENGINES = tuple(ENGINE_KEYS)
SLOT_BYTES = 64
"""Every program is a whole number of slots of this size (measured on a real NEFF)."""
GENERATIONS = {
    "inf1": 1,
    "trn1": 2,
    "inf2": 2,
    "gen2": 2,
    "cayman": 3,
    "trn2": 3,
    "gen3": 3,
    "trn3": 4,
    "gen4": 4,
}
"""`target` of kelf-0.json -> NeuronCore version. `cayman` is measured on a real NEFF; the product and
NKI names are what npuviz writes, because the vendor's other target names are not public."""
OWN_FOLDER = "npuviz/"
"""Members that only npuviz writes and reads; no check ever complains about them."""


@dataclass(frozen=True, slots=True)
class NeffHeader:
    """The 1024 bytes before the archive (NEFFDOC; offsets measured on a real NEFF).

    The writer fills a `hash` or `uuid` of zeros from the content. `data_size` is what the
    file says; the writer writes the true size.
    """

    pkg_version: int = 2
    header_size: int = 1024
    data_size: int = 0
    version_major: int = 2
    version_minor: int = 0
    build_version: bytes = bytes(128)
    num_tpb: int = 1
    hash: bytes = bytes(32)
    uuid: bytes = bytes(16)
    name: bytes = b"file.neff"
    requested_tpb_count: int = 1
    tpb_per_node: bytes = b"\x01" + bytes(63)
    feature_bits: int = 0
    lnc_size: int = 1
    pad: bytes = bytes(468)


@dataclass(frozen=True, slots=True)
class Access:
    """One side of a descriptor: which bytes of a variable are accessed, in which order (reference 4.6).

    Address of byte (i0, i1, ...) = offset + i0*steps[0] + i1*steps[1] + ..., i0 fastest. Offset and
    steps are bytes; sizes[0] is bytes, the others are counts. `scale` is the scale of one `from_arr` entry.
    """

    variable: str
    offset: int = 0
    steps: tuple[int, ...] = (1,)
    sizes: tuple[int, ...] = (1,)
    dtype: str = "uint8"
    scale: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def byte_count(self) -> int:
        """Number of bytes that this side moves."""
        return prod(self.sizes)

    @property
    def span(self) -> tuple[int, int]:
        """Lowest and highest byte address touched, inclusive, inside the variable."""
        low = high = self.offset
        for step, size in zip(self.steps, self.sizes, strict=True):
            reach = step * (size - 1)
            if reach < 0:
                low += reach
            else:
                high += reach
        return low, high


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What one DMA entry moves, and what it computes on the way (reference 4.6, `desc`).

    `uses_from_arr` tells a `from_arr` of one source from a plain `from`.
    """

    to_access: Access
    sources: tuple[Access, ...]
    op: str = "copy"
    uses_from_arr: bool = False
    num_tiling_dimensions: int | None = None
    scale: float | None = None
    scale_dtype: str | None = None
    constant: int | float | None = None
    constant_dtype: str | None = None
    transpose_shape: tuple[int, ...] | None = None
    transpose_element_size: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def to(self) -> str:
        """Name of the destination variable."""
        return self.to_access.variable


@dataclass(frozen=True, slots=True)
class DmaEntry:
    """One entry of an engine's `dma` list: a descriptor, its queue, and what it signals when done."""

    id: int
    desc: Descriptor
    queue: str = ""
    instance_name: str = ""
    function_start: str = ""
    section_start_desc: bool = False
    event: int | None = None
    semaphore: int | None = None
    remote_semaphores: tuple[int, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueSet:
    """A named group of DMA queues that one engine triggers (NEFFDOC)."""

    name: str
    type: str = "data"
    num_queues: int = 1
    owner: str = ""
    pinned: bool = False
    queue_instances: tuple[str, ...] = ()
    semaphore_set: tuple[int, ...] = ()
    semaphore: int | None = None
    fabric_path: str = "main"
    dynamic_dma: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variable:
    """A device buffer that a program reads or writes (NEFFDOC). `size` in bytes;
    None if the file has none."""

    name: str
    type: str
    var_id: int
    size: int | None = None
    alignment: int = 0
    fabric_path: str = "main"
    file_name: str | None = None
    backing_variable_off: int | None = None
    referenced_var_id: int | None = None
    table: tuple[int, ...] | None = None
    """`list` of the file: var_ids that fill a `dge-table`."""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineFile:
    """Program and DMA descriptors of one engine of one subgraph.

    `extra` holds the engine's other JSON keys, for example activation_function_sets, act_info and
    dve_tables. Empty file names mean the usual ones: PE.json, PE.bin.
    """

    name: str
    program: Payload = b""
    descriptors: tuple[DmaEntry, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    json_name: str = ""
    program_name: str = ""
    backend_debug: tuple[str, ...] = ()
    """File names of the debug records of its instructions, in the subgraph's folder."""
    assembly_debug: tuple[str, ...] = ()
    """File names of the debug records of its 64-byte slots."""

    @property
    def slot_count(self) -> int:
        """Number of whole 64-byte slots of the program."""
        return len(self.program) // SLOT_BYTES

    @property
    def dve_tables(self) -> tuple[Mapping[str, str], ...]:
        """Table files of the Vector engine; files have both spellings of the control table's key."""
        return tuple(self.extra.get("dve_tables", ()))


@dataclass(frozen=True, slots=True)
class Subgraph:
    """The computation of one physical core: a folder of the archive.

    `files` is everything of the folder but def.json, the engine JSONs and the programs: constants,
    tables, debug records, tensor_map.json. `definition` is def.json without queue sets, variables
    and the engines' file names.
    """

    name: str
    queue_sets: Mapping[str, QueueSet] = field(default_factory=dict)
    variables: Mapping[str, Variable] = field(default_factory=dict)
    engines: Mapping[str, EngineFile] = field(default_factory=dict)
    files: Mapping[str, Payload] = field(default_factory=dict)
    tensor_map: Mapping[str, Any] = field(default_factory=dict)
    definition: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    """Folder in the archive; empty: the name."""
    dma_debug: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule. `severity` is "error" or "warning"; a fatal error keeps the file from being opened."""

    rule: str
    severity: str
    where: str
    text: str
    is_fatal: bool = False


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """Tar header of a member, so that writing gives the same tar again.

    `raw` holds the member's header blocks if npuviz would write different ones, else it is empty.
    """

    name: str
    is_folder: bool = False
    mode: int = 0o664
    uid: int = 1000
    gid: int = 1000
    mtime: int = 0
    uname: str = "nobody"
    gname: str = "nobody"
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Neff:
    """A whole NEFF: header, members as they are in the archive, and what npuviz parsed from them.

    `members` is the content: writing a Neff writes exactly these bytes, in this order. `subgraphs`,
    `kelf` and `graph` are parsed from them; to change those, build a new one with `make_neff`.
    """

    name: str
    header: NeffHeader
    members: Mapping[str, Payload]
    subgraphs: tuple[Subgraph, ...] = ()
    kelf: Mapping[str, Any] = field(default_factory=dict)
    graph: Mapping[str, Any] = field(default_factory=dict)
    layout: tuple[ArchiveEntry, ...] = ()
    is_compressed: bool = True
    tar_trailer: int = 1024
    """Zero bytes after the last member."""
    unused_bytes: int = 0
    """Bytes of the file that belong to nothing: after data_size, or after the compressed stream."""
    warnings: tuple[Finding, ...] = ()

    @property
    def target(self) -> str:
        """Machine that kelf-0.json names; empty if it names none."""
        return str(self.kelf.get("target", ""))

    @property
    def generation(self) -> int | None:
        """NeuronCore version 1..4 of the target, None if the target is not known."""
        return GENERATIONS.get(self.target)
