"""Hold what the compiler hands to the machine: programs of processing elements, routes, and host commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.wavelet.kernels import isa

TIMER, TIMER_CONTROL = 0x7E80, 0x7E84
"""Word addresses of the time stamp counter and of the register that starts and stops it."""
MAX_SIDE = 1500
"""Most columns or rows of a rectangle; the largest published full system has 762 x 1172 PEs."""


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A place in a program text; `file` indexes `Wafer.files`, lines and columns count from 1."""

    file: int
    line: int
    column: int = 1


@dataclass(frozen=True, slots=True)
class Variable:
    """A local variable or parameter while its function runs.

    register  -1 if it lives in the frame memory at `offset`
    first, last  code indices between which it is in scope
    """

    name: str
    type: str
    register: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Function:
    """Code that can be called.

    entry        index of its first instruction
    num_regs     registers of its frame; the arguments arrive in the first ones
    frame_bytes  bytes it needs of the stack in PE memory (arrays, structs, variables whose address is taken)
    """

    name: str
    entry: int
    num_regs: int
    frame_bytes: int
    place: SourcePlace
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """A function bound to an id.

    kind       isa.ID_LOCAL, ID_DATA (id: color on WSE-2, input queue on WSE-3) or ID_CONTROL
    arguments  value types (isa.T_...) in order; the payload is split evenly, low part first
    """

    name: str
    kind: int
    id: int
    function: int
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fifo:
    """A FIFO in PE memory.

    Actions when it is empty or full: 0 test_or_suspend, 1 terminate, 2 suspend, 3 fault. Task ids are -1 if
    none.
    """

    name: str
    address: int
    size_bytes: int
    empty_action: int = 0
    full_action: int = 0
    activate_pop: int = -1
    activate_push: int = -1
    priority: int = 0
    simd: int = 0


@dataclass(frozen=True, slots=True)
class QueueBinding:
    """A queue that `@initialize_queue` has set up; color -1 if none was given."""

    queue: int
    is_output: bool
    color: int
    priority: int = 0
    control_table: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A global variable.

    type        the CSL type as text ("[4]f32")
    dtype, shape  numpy name of the element type ("uint16"); () for scalars
    is_pointer  the value is an address; if such a variable is exported, the host copies what it points to
    is_unset    the program gives no initial value
    """

    name: str
    address: int
    size_bytes: int
    type: str
    dtype: str
    shape: tuple[int, ...] = ()
    is_mutable: bool = True
    is_pointer: bool = False
    is_unset: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """What the host sees under a name: a symbol, or a function with argument types (isa.T_...)."""

    name: str
    symbol: int = -1
    function: int = -1
    arguments: tuple[int, ...] = ()
    is_mutable: bool = True


@dataclass(frozen=True, slots=True)
class DsrLoad:
    """A DSR that holds a descriptor from the start; `settings` is a row of the operation table, -1 none."""

    file: int
    id: int
    word: int
    settings: int = -1


@dataclass(frozen=True, slots=True)
class Channel:
    """The configuration of one color in one PE's router.

    positions  (receive mask, transmit mask) of switch positions 0..3; an invalid one is None
    filter     None, or fields by name: "kind" 0 counter, 1 sparse counter, 2 range; others as CSL names them
    swap       bit 0: color_swap_x, bit 1: color_swap_y
    """

    color: int
    positions: tuple[tuple[int, int] | None, ...]
    position: int = 0
    ring: bool = False
    pop: int = isa.POP_NEVER
    teardown: bool = False
    filter: Mapping[str, int] | None = None
    swap: int = 0
    place: SourcePlace | None = None


@dataclass(frozen=True)
class PeProgram:
    """The program of all PEs with the same code and parameters.

    code        (instructions, isa.CODE_WORDS) int64; column C_LINE indexes `places`
    operations  (rows, isa.OPERATION_WORDS) int64
    shapes      (rows, 8) int64: mem4d extents outermost first, then strides innermost first, unused 1 and 0;
                circbuf: (start address, wraparound in elements, 0, ...)
    image       uint8 from address 0 to the end of the data; the stack follows, `memory_bytes` in all
    code_bytes  estimate of what the code would take of the 48 KB (assumed)
    """

    name: str
    code: np.ndarray
    places: tuple[SourcePlace, ...]
    functions: tuple[Function, ...]
    tasks: tuple[Task, ...]
    operations: np.ndarray
    shapes: np.ndarray
    image: np.ndarray
    stack_base: int
    memory_bytes: int
    code_bytes: int = 0
    fifos: tuple[Fifo, ...] = ()
    queues: tuple[QueueBinding, ...] = ()
    dsrs: tuple[DsrLoad, ...] = ()
    activated: tuple[int, ...] = ()
    """Ids of the local tasks that are active at the start."""
    blocked: tuple[tuple[int, int], ...] = ()
    """(isa.ID_..., id) of each task or microthread that is blocked at the start."""
    unblocked: tuple[tuple[int, int], ...] = ()
    teardown_handlers: Mapping[int, int] = field(default_factory=dict[int, int])
    """Color -> index of the function that runs when the color is torn down."""
    empty_handlers: Mapping[tuple[int, bool], int] = field(default_factory=dict[tuple[int, bool], int])
    """(queue, is output) -> index of the function that runs when the queue has become empty."""
    rotations: tuple[tuple[int, int, int, int, int], ...] = ()
    """(data task id, main function, alternate function, limit, start)."""
    priorities: tuple[tuple[int, int, int], ...] = ()
    """(isa.ID_..., id, priority) set at compile time; (isa.ID_NONE, 0, level) is the main thread's."""
    config: tuple[tuple[int, int], ...] = ()
    """(word address, value) of configuration registers set at compile time."""
    symbols: tuple[Symbol, ...] = ()
    exports: tuple[Export, ...] = ()
    channels: tuple[Channel, ...] = ()
    """Colors configured by the PE program itself (`@set_local_color_config`)."""
    messages: tuple[str, ...] = ()
    """Texts that assertions and faults of the code refer to by index."""
    trace_buffers: Mapping[str, int] = field(default_factory=dict[str, int])
    """Debug trace key -> id."""
    half: int = isa.T_F16
    """The 16-bit float format of the program: isa.T_F16, T_BF16 or T_CB16."""


@dataclass(frozen=True)
class Wafer:
    """A compiled program.

    programs    distinct PE programs; program_of (rows, columns) int32 index into it, -1: no code
    channels    (column, row) -> colors that the layout configures
    fabric      (columns, rows) of the whole fabric, offset (column, row) of the rectangle in it
    files, texts  source files in order of SourcePlace.file
    exported    name -> (type text, is mutable) of `@export_name`, in order: the id is the position
    """

    name: str
    arch: str
    columns: int
    rows: int
    programs: tuple[PeProgram, ...]
    program_of: np.ndarray
    channels: Mapping[tuple[int, int], tuple[Channel, ...]]
    fabric: tuple[int, int] = (0, 0)
    offset: tuple[int, int] = (4, 1)
    files: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    exported: Mapping[str, tuple[str, bool]] = field(default_factory=dict[str, tuple[str, bool]])
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()


# ---- host commands, in the order in which the host gave them
HOST_COPY_IN = 0  # to a symbol
HOST_COPY_OUT = 1
HOST_STREAM_IN = 2  # wavelets of a color to the PEs of the region, through the channels of memcpy
HOST_STREAM_OUT = 3
HOST_LAUNCH = 4  # a function on all PEs
HOST_PORT_IN = 5  # likewise, through a port of an SdkLayout
HOST_PORT_OUT = 6
STREAMS_IN = (HOST_STREAM_IN, HOST_PORT_IN)
STREAMS_OUT = (HOST_STREAM_OUT, HOST_PORT_OUT)


@dataclass(frozen=True)
class HostCommand:
    """One command of the host.

    Commands of different colors overlap if they are `nonblock`; others run in order. Streams into the wafer
    overlap only if they go through ports.

    subject    export name (copy, launch) or color (stream)
    region     x, y, width, height in rectangle coordinates
    words      32-bit words that each PE sends or takes
    data       (height, width, words) uint32 for transfers to the device, arguments (n,) uint32 of a launch
    is_16bit   copies: each word carries one 16-bit element in its low half
    """

    kind: int
    subject: str | int
    region: tuple[int, int, int, int] = (0, 0, 0, 0)
    words: int = 0
    data: np.ndarray | None = None
    is_16bit: bool = False
    nonblock: bool = False
