"""Define the contents of an .rknn container of version 6 as plain records.

Slots and meanings were derived from public RK3588 models; names of slots follow the reader of Netron where
it has one (source: D NETRON; M DER; relocations, plan starts and task counts measured on public models
of compilers 1.6 to 2.3.2).
"""

from dataclasses import dataclass, field
from typing import Any

DTYPES = {
    1: "int32",
    3: "int8",
    5: "int16",
    6: "float32",
    7: "int64",
    10: "float16",
    13: "raw",
}
"""Element types by code (source: D NETRON; 13 measured). Other codes are kept as numbers."""
KINDS = {
    1: "input",
    2: "output",
    3: "intermediate",
    4: "weight",
    5: "constant",
    9: "regcmd",
    10: "task",
}
"""Roles of tensors by code (source: D NETRON for 4 and 5; others measured)."""
REGCMD_KIND, TASK_KIND = 9, 10
PLAN_SLOTS = 6
"""Length of a node's task counts: one core (1), two cores (2), three cores (3)."""


@dataclass(frozen=True, slots=True)
class RknnTensor:
    """A tensor. `packed_shape` is NC1HWC2 if the NPU holds it so, else the plain shape.

    `size` in bytes. `place` is a byte offset in the memory for inputs, outputs and intermediates.
    `blob` is the number of the blob with the data of weights, constants, register commands and tasks.
    """

    name: str
    dtype_code: int = 0
    kind_code: int = 0
    shape: tuple[int, ...] = ()
    packed_shape: tuple[int, ...] = ()
    size: int = 0
    place: int = 0
    blob: int = 0

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return DTYPES.get(self.dtype_code, f"code {self.dtype_code}")

    @property
    def kind(self) -> str:
        """Name of the role."""
        return KINDS.get(self.kind_code, f"code {self.kind_code}")


@dataclass(frozen=True, slots=True)
class RknnNode:
    """An operator. `inputs` and `outputs` number tensors; -1 stands for none.

    `task_counts` are its tasks in each plan and core: (1 core; 2 cores: 0, 1; 3 cores: 0, 1, 2), empty
    in files without them. `attributes` is BSON, kept as it is.
    """

    type: str
    name: str
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    task_counts: tuple[int, ...] = ()
    attributes: bytes = b""


@dataclass(frozen=True, slots=True)
class Relocation:
    """The word `word` of the regcmd area must get the address of a tensor plus `offset` bytes."""

    tensor: str
    offset: int
    word: int
    core: int = 0


@dataclass(frozen=True, slots=True)
class RknnGraph:
    """Tensors, nodes in order, and the data needed to interpret task table and regcmd area.

    `plan_starts` are the first tasks of the plans for one, two and three cores, empty in files without
    them.
    """

    tensors: tuple[RknnTensor, ...]
    nodes: tuple[RknnNode, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    relocations: tuple[Relocation, ...] = ()
    plan_starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rknn:
    """A container. `blobs` are raw bytes, to which the tensors refer by number.

    `json` is the document after the payload.
    """

    graphs: tuple[RknnGraph, ...]
    blobs: tuple[bytes, ...]
    platform: str = ""
    compiler: str = ""
    source: str = ""
    format: str = "RKNPU v2"
    generator: str = ""
    input_json: str = ""
    output_json: str = ""
    json: dict[str, Any] = field(default_factory=dict[str, Any])
    file: str = field(default="rknn", compare=False)
    blob_offsets: tuple[int, ...] = field(default=(), compare=False)
    """Byte offset of each blob in the file, for messages; empty in models made in memory."""
