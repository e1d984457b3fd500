"""Resolve names in blocks and instances of modules, and collect what a PE's comptime code registers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import (
    ArrayValue,
    DsdValue,
    PointerValue,
    Scalar,
    Storage,
    StructValue,
    Value,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.wafer import Channel


@dataclass(slots=True, eq=False)
class Cell(Storage):
    """A local variable while code is executed at compile time; `kind` None until its first value."""

    name: str
    kind: t.Type
    value: Value | None
    mutable: bool = True

    @property
    def storage_type(self) -> t.Type:
        """Type of what is stored."""
        return self.kind

    @property
    def storage_name(self) -> str:
        """Name for messages and symbols."""
        return self.name


@dataclass(slots=True, eq=False)
class Global(Storage):
    """A `const`, `var` or `param` of a module instance, evaluated on first use.

    value  for const and param: the value; for var: the initial value, None if it has none
    kind   its type, once known (`Comptime.global_type`)
    """

    instance: ModuleInstance
    node: tree.Variable
    state: int = 0
    """0 untouched, 1 its type is being evaluated, 3 its value is being evaluated, 4 done."""
    kind: t.Type | None = None
    value: Value | None = None
    align: int = 0

    @property
    def storage_type(self) -> t.Type:
        """Type of what is stored."""
        if self.kind is None:
            raise RuntimeError(f"type of {self.node.name} is not evaluated")
        return self.kind

    @property
    def storage_name(self) -> str:
        """Name for messages and symbols."""
        return self.instance.qualified(self.node.name)

    @property
    def is_var(self) -> bool:
        """Whether the value may change at run time."""
        return self.node.kind == "var"


@dataclass(slots=True, eq=False)
class FunctionValue(Value):
    """A function or task of one module instance; one object per instance and name."""

    instance: ModuleInstance
    node: tree.Function
    signature: t.FunctionType | None = None
    """Filled by `Comptime.signature`; None while a parameter is `anytype` or depends on another."""

    @property
    def type(self) -> t.Type:
        """The type of the value."""
        return self.signature or t.function(self.node.kind, (), t.VOID)

    @property
    def is_task(self) -> bool:
        """Whether this is a `task`."""
        return self.node.kind == "task"

    @property
    def name(self) -> str:
        """`module.name`, or the plain name in the root module."""
        return self.instance.qualified(self.node.name)


@dataclass(frozen=True, slots=True, eq=False)
class ModuleValue(Value):
    """The result of `@import_module`."""

    kind = t.MODULE
    instance: ModuleInstance


@dataclass(slots=True, eq=False)
class RuntimeLocal:
    """A local variable or parameter that exists at run time; the lowering has a subclass of it."""

    name: str
    type: t.Type
    mutable: bool


PREDEFINED_VALUES: dict[str, Value] = {
    "RAMP": Scalar(t.DIRECTION, isa.PORT_RAMP),
    "NORTH": Scalar(t.DIRECTION, isa.PORT_NORTH),
    "EAST": Scalar(t.DIRECTION, isa.PORT_EAST),
    "SOUTH": Scalar(t.DIRECTION, isa.PORT_SOUTH),
    "WEST": Scalar(t.DIRECTION, isa.PORT_WEST),
}
"""Name -> value; a direction's number is its port."""

Entry = Value | Cell | Global | RuntimeLocal
"""What a name can stand for. A plain Value is a constant, a function, a module or a type."""


class Scope:
    """One block: its own names, then its parent's, then its module's globals, then predefined ones.

    runtime  True inside code that will run on the PE: functions are not executed and global variables not
             read there, and what depends on them raises `NotComptime`
    forced   True inside `comptime` code of a function that will run on the PE: global variables cannot be
             read there, although functions are executed
    depth    number of calls under execution around the block
    """

    __slots__ = ("depth", "forced", "instance", "names", "parent", "runtime")

    def __init__(
        self,
        instance: ModuleInstance,
        parent: Scope | None = None,
        runtime: bool | None = None,
        depth: int | None = None,
    ) -> None:
        self.instance = instance
        self.parent = parent
        self.names: dict[str, Entry] = {}
        self.runtime = (parent.runtime if parent else False) if runtime is None else runtime
        self.depth = (parent.depth if parent else 0) if depth is None else depth
        self.forced = parent is not None and (parent.forced or (parent.runtime and not self.runtime))

    def child(self, runtime: bool | None = None) -> Scope:
        """Return a new block inside this one."""
        return Scope(self.instance, self, runtime)

    def find(self, name: str) -> Entry | None:
        """Return what `name` stands for in the surrounding blocks (not globals), None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            entry = scope.names.get(name)
            if entry is not None:
                return entry
            scope = scope.parent
        return None

    def visible(self) -> set[str]:
        """Return all names that are visible here: of the surrounding blocks, of the module, predefined
        types."""
        names = set(self.instance.declarations) | set(t.PREDEFINED)
        scope: Scope | None = self
        while scope is not None:
            names |= scope.names.keys()
            scope = scope.parent
        return names

    def declare(self, name: str, entry: Entry) -> None:
        """Let `name` stand for `entry` from here on; `_` is never declared."""
        if name != "_":
            self.names[name] = entry


class ModuleInstance:
    """One import of one file: its own globals, parameters and functions.

    name     path of import names below the root, "" for the root ("math", "mpi_x.util")
    params   values bound to its `param`s by the importer
    members  entries that were asked for so far, by name
    pe       what the comptime code of this PE registers; shared by all instances of one PE program;
             None in the layout
    key      equal for instances of one file with equal parameters; made by the call memo
    """

    __slots__ = ("declarations", "file", "is_library", "key", "members", "name", "params", "pe", "scope")

    def __init__(
        self,
        file: tree.SourceFile,
        declarations: Mapping[str, tree.Variable | tree.Function],
        params: Mapping[str, Value],
        name: str,
        pe: PeRegistry | None,
        is_library: bool,
    ) -> None:
        self.file = file
        self.declarations = declarations
        self.params = dict(params)
        self.name = name
        self.pe = pe
        self.is_library = is_library
        self.members: dict[str, Global | FunctionValue] = {}
        self.scope = Scope(self)
        self.key: Hashable | None = None

    def qualified(self, name: str) -> str:
        """Return `module.name`, or the plain name in the root module."""
        return f"{self.name}.{name}" if self.name else name

    def member(self, name: str) -> Global | FunctionValue | None:
        """Return a global or function of this file, None if it declares none of that name."""
        found = self.members.get(name)
        if found is None:
            node = self.declarations.get(name)
            if node is None:
                return None
            found = Global(self, node) if isinstance(node, tree.Variable) else FunctionValue(self, node)
            self.members[name] = found
        return found


def key_of(value: Value) -> Hashable:
    """Return a hashable key: equal for equal values; for modules, functions and storage by identity."""
    if isinstance(value, Scalar):
        return (value.kind, value.number)
    if isinstance(value, ArrayValue):
        if value.data.dtype == object:
            return (value.kind, tuple(key_of(item) for item in value.data))
        return (value.kind, value.data.tobytes())
    if isinstance(value, StructValue):
        return (value.kind, tuple(key_of(part) for part in value.fields.values()))
    if isinstance(value, ModuleValue):
        return (t.MODULE, id(value.instance))
    return value


# ---- what comptime code registers ----


@dataclass(frozen=True, slots=True)
class TaskBinding:
    """A binding by `@bind_local_task`, `@bind_data_task` or `@bind_control_task`.

    kind    isa.ID_LOCAL, ID_DATA or ID_CONTROL
    is_old  bound by `@bind_task` of earlier SDKs: colors name tasks on this PE
    """

    function: FunctionValue
    kind: int
    id: int
    at: tree.Span
    is_old: bool = False


@dataclass(frozen=True, slots=True)
class QueueSetting:
    """A queue set up by `@initialize_queue`.

    color     -1 if not given
    priority  0 high, 1 medium, 2 low, -1 if not given
    """

    queue: int
    is_output: bool
    color: int
    priority: int
    control_table: int
    at: tree.Span


@dataclass(frozen=True, slots=True)
class ExportSymbol:
    """`@export_symbol` or an `export` declaration: a global or function under its outside name."""

    name: str
    subject: Global | FunctionValue
    at: tree.Span


@dataclass(frozen=True, slots=True)
class FifoSetting:
    """A FIFO made by `@allocate_fifo`.

    Actions: 0 test_or_suspend, 1 terminate, 2 suspend, 3 fault; ids -1: none.

    activate_*  local task id, or the task whose binding gives it
    registers   ids of (dest, src, xdsr) if given
    """

    name: str
    buffer: PointerValue
    element: t.Type
    count: int
    empty_action: int
    full_action: int
    activate_pop: int | FunctionValue
    activate_push: int | FunctionValue
    priority: int
    simd: int
    registers: tuple[int, int, int] | None
    at: tree.Span


@dataclass(frozen=True, slots=True)
class DsrSetting:
    """A DSR loaded by `@load_to_dsr` in comptime code; `settings` is the third argument."""

    kind: t.Type
    id: int
    dsd: DsdValue
    settings: StructValue | None
    at: tree.Span


@dataclass(slots=True)
class PeRegistry:
    """Everything that the comptime code of one PE program registers, for all its modules together."""

    instances: list[ModuleInstance] = field(default_factory=list["ModuleInstance"])
    """Instances of modules: the root first, then in order of import."""
    tasks: list[TaskBinding] = field(default_factory=list[TaskBinding])
    queues: dict[tuple[int, bool], QueueSetting] = field(default_factory=dict[tuple[int, bool], QueueSetting])
    """(queue, is output) -> setting."""
    activated: list[tuple[int, tree.Span]] = field(default_factory=list[tuple[int, tree.Span]])
    """Ids of local tasks that are active at the start, with the place that says so."""
    blocked: list[tuple[int, int, tree.Span]] = field(default_factory=list[tuple[int, int, tree.Span]])
    """(isa.ID_..., number, place) of ids that are blocked at the start."""
    unblocked: list[tuple[int, int, tree.Span]] = field(default_factory=list[tuple[int, int, tree.Span]])
    exports: list[ExportSymbol] = field(default_factory=list[ExportSymbol])
    declared_exports: list[ExportSymbol] = field(default_factory=list[ExportSymbol])
    """`export` declarations, merged into `exports` at the end."""
    channels: list[Channel] = field(default_factory=list[Channel])
    """Channels set by `@set_local_color_config`."""
    teardown_handlers: dict[int, FunctionValue] = field(default_factory=dict[int, FunctionValue])
    """Color -> function that runs when the color is torn down."""
    empty_handlers: dict[tuple[int, bool], FunctionValue] = field(
        default_factory=dict[tuple[int, bool], FunctionValue]
    )
    rotations: list[tuple[int, FunctionValue, FunctionValue, int, int]] = field(
        default_factory=list[tuple[int, FunctionValue, FunctionValue, int, int]]
    )
    """(data task id, main, alternate, limit, start)."""
    fifos: list[FifoSetting] = field(default_factory=list[FifoSetting])
    dsr_loads: list[DsrSetting] = field(default_factory=list[DsrSetting])
    priorities: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    """(isa.ID_..., number, priority); (isa.ID_NONE, 0, level): the main thread."""
    config: dict[int, int] = field(default_factory=dict[int, int])
    """`@set_config` in comptime code: word address -> value before the start."""
    control_table: tuple[int, int] | None = None
    """`@set_control_task_table`: (instructions, stride)."""
    warnings: list[tuple[tree.Span, str]] = field(default_factory=list[tuple[tree.Span, str]])
