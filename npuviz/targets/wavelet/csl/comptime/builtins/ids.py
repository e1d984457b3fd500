"""Evaluate builtins for colors, queues, tasks and registers, and what comptime blocks register."""

from __future__ import annotations

from collections.abc import Mapping

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.builtins.table import builtin, registry
from npuviz.targets.wavelet.csl.comptime.builtins.values import check_range
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import (
    FunctionValue,
    PeRegistry,
    QueueSetting,
    Scope,
    TaskBinding,
)
from npuviz.targets.wavelet.csl.comptime.session import Session
from npuviz.targets.wavelet.csl.comptime.values import (
    TRUE,
    VOID,
    Scalar,
    StructValue,
    Value,
    integer_of,
)
from npuviz.targets.wavelet.csl.syntax.errors import CslError, similar
from npuviz.targets.wavelet.csl.syntax.tree import BuiltinCall, Expression, Span
from npuviz.targets.wavelet.kernels import isa

NUM_COLORS = 24
OUTPUT_QUEUES = {"wse2": 6, "wse3": 8}
"""[DSD]: queues 6 and 7 have no output on WSE-2."""
FIRST_LOCAL_ID = {"wse2": 0, "wse3": 8}
LAST_LOCAL_ID = 30
LAST_COLOR = 63
"""Largest color on WSE-2: up to SDK 0.9, ids of tasks were colors. Wavelets have those below NUM_COLORS."""
CHOICES = {"high": 0, "medium": 1, "low": 2}


def _make(name: str, kind: t.Type, what: str, limits: dict[str, tuple[int, int]]) -> None:
    """Enter a builtin that makes an id from a number; `limits` by architecture."""

    def evaluate(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
        low, high = limits[comptime.session.arch]
        number = comptime.constant_integer(node.arguments[0], scope)
        return Scalar(kind, check_range(number, low, high, what, node.arguments[0].at))

    builtin(name, 1)(evaluate)


def _both(low: int, high: int) -> dict[str, tuple[int, int]]:
    return {"wse2": (low, high), "wse3": (low, high)}


_make("get_input_queue", t.INPUT_QUEUE, "input queue", _both(0, 7))
_make(
    "get_output_queue",
    t.OUTPUT_QUEUE,
    "output queue",
    {arch: (0, count - 1) for arch, count in OUTPUT_QUEUES.items()},
)
_make(
    "get_local_task_id",
    t.LOCAL_TASK_ID,
    "local task id",
    {arch: (first, LAST_LOCAL_ID) for arch, first in FIRST_LOCAL_ID.items()},
)
_make("get_control_task_id", t.CONTROL_TASK_ID, "control task id", _both(0, 63))
_make("get_xdsr", t.XDSR, "XDSR", _both(0, 15))
_make("get_sr", t.SR, "SR", _both(0, 15))


@builtin("get_color", 1)
def _get_color(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    number = comptime.constant_integer(node.arguments[0], scope)
    session = comptime.session
    if session.arch == "wse2" and NUM_COLORS <= number <= LAST_COLOR:
        session.note_old(node.at, "a color as the id of a task", "a local_task_id or control_task_id")
        return Scalar(t.COLOR, number)
    return Scalar(t.COLOR, check_range(number, 0, NUM_COLORS - 1, "color", node.arguments[0].at))


@builtin("get_ut_id", 1)
def _get_ut_id(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    if comptime.session.arch != "wse3":
        raise CslError(node.at, "@get_ut_id exists on WSE-3 only", 'test @is_arch("wse3")')
    number = comptime.constant_integer(node.arguments[0], scope)
    return Scalar(t.UT_ID, check_range(number, 0, 7, "microthread", node.at))


@builtin("get_data_task_id", 1)
def _get_data_task_id(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    value = comptime.evaluate(node.arguments[0], scope)
    is_wse3 = comptime.session.arch == "wse3"
    wanted = t.INPUT_QUEUE if is_wse3 else t.COLOR
    if not isinstance(value, Scalar) or value.kind is not wanted:
        raise CslError(
            node.at,
            f"@get_data_task_id takes a {wanted} on {comptime.session.arch}, found {value.type}",
            "WSE-2 makes data task ids from colors, WSE-3 from input queues",
        )
    return Scalar(t.DATA_TASK_ID, value.number)


@builtin("get_color_id", 1)
def _get_color_id(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    """Evaluate `@get_int` of a color by its name in SDK 0.9 and before."""
    value = comptime.evaluate(node.arguments[0], scope)
    comptime.session.note_old(node.at, "@get_color_id", "@get_int")
    return Scalar(t.U16, number_of(value, t.COLOR, "@get_color_id", node.at))


@builtin("rpc", 1, effect=True)
def _rpc(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    """Check the id by which launches of the host arrive; the machine takes launches itself."""
    value = comptime.evaluate(node.arguments[0], scope)
    registry(node, scope)
    if value.type not in (t.DATA_TASK_ID, t.COLOR):
        raise CslError(node.arguments[0].at, f"@rpc takes a data_task_id, found {value.type}")
    if value.type is t.COLOR:
        comptime.session.note_old(node.at, "@rpc(color)", "@rpc(@get_data_task_id(..))")
    return VOID


@builtin("get_dsr", 2)
def _get_dsr(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    kind = comptime.type_expression(node.arguments[0], scope)
    if kind not in t.DSR_FILES:
        raise CslError(node.arguments[0].at, f"expected dsr_dest, dsr_src0 or dsr_src1, found {kind}")
    value = comptime.evaluate(node.arguments[1], scope)
    if isinstance(value, Scalar) and value.kind in t.DSR_FILES:
        return Scalar(kind, value.number)
    return Scalar(kind, check_range(integer_of(value, node.at), 0, 15, "DSR", node.arguments[1].at))


# ---- settings structs ----


def fields_of(
    comptime: Comptime, node: BuiltinCall, position: int, scope: Scope, what: str
) -> Mapping[str, Value]:
    """Return the fields of an optional struct among the arguments. Raises CslError for another value."""
    if len(node.arguments) <= position:
        return {}
    argument = node.arguments[position]
    value = comptime.evaluate(argument, scope)
    if not isinstance(value, StructValue):
        raise CslError(argument.at, f"expected {what} as .{{..}}, found {value.type}")
    return value.fields


def settings_of(
    comptime: Comptime, node: BuiltinCall, position: int, scope: Scope, allowed: tuple[str, ...]
) -> Mapping[str, Value]:
    """Return the fields of an optional settings struct. Raises CslError for unknown fields."""
    fields = fields_of(comptime, node, position, scope, "settings")
    for name in fields:
        if name not in allowed:
            hint = similar(name, allowed) or f"possible: {', '.join(allowed)}"
            raise CslError(node.arguments[position].at, f"@{node.name} has no setting .{name}", hint)
    return fields


def choice_of(value: Value, choices: dict[str, int], what: str, at: Span) -> int:
    """Return the number of the field that is true in `.{.high = true}`. Raises CslError."""
    if isinstance(value, StructValue) and set(value.fields) <= set(choices):
        chosen = [name for name, inner in value.fields.items() if inner == TRUE]
        if len(chosen) == 1:
            return choices[chosen[0]]
    text = " or ".join(f".{{ .{name} = true }}" for name in choices)
    raise CslError(at, f"{what} is written as {text}")


def queue_of(session: Session, value: Value, kind: t.Type, at: Span) -> Value:
    """Return the queue of a descriptor, which older SDKs take as a number on WSE-2. Raises CslError."""
    if session.arch == "wse2" and isinstance(value, Scalar) and isinstance(value.kind, t.IntegerType):
        session.note_old(at, f"a number as the {kind}", f"@get_{kind}(n)")
        most = 7 if kind is t.INPUT_QUEUE else OUTPUT_QUEUES[session.arch] - 1
        return Scalar(kind, check_range(value.integer, 0, most, str(kind).replace("_", " "), at))
    return value


def number_of(value: Value, kind: t.Type, what: str, at: Span) -> int:
    """Return the number of a color, queue or id. Raises CslError for another type."""
    if isinstance(value, Scalar) and value.kind is kind:
        return value.integer
    raise CslError(at, f"{what} needs a {kind}, found {value.type}")


def routable(value: Value, what: str, at: Span) -> int:
    """Return the number of a color that wavelets can have: higher ones are ids of tasks in older sources.

    Raises CslError.
    """
    number = number_of(value, t.COLOR, what, at)
    if number >= NUM_COLORS:
        raise CslError(at, f"{what}: color {number} is no color of wavelets; they are 0 to {NUM_COLORS - 1}")
    return number


@builtin("initialize_queue", 1, 2, effect=True)
def _initialize_queue(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    pe = registry(node, scope)
    queue = comptime.evaluate(node.arguments[0], scope)
    if not isinstance(queue, Scalar) or queue.kind not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        raise CslError(node.arguments[0].at, f"expected a queue, found {queue.type}")
    is_output = queue.kind is t.OUTPUT_QUEUE
    settings = settings_of(comptime, node, 1, scope, ("color", "priority", "ctrl_table_id"))
    color = -1
    if "color" in settings:
        color = routable(settings["color"], ".color", node.at)
    is_wse3 = comptime.session.arch == "wse3"
    if color < 0 and (is_wse3 or not is_output):
        raise CslError(node.at, f"{queue.kind} {queue.number} needs a .color on {comptime.session.arch}")
    priority = -1
    if "priority" in settings:
        if is_wse3:
            raise CslError(node.at, "queues have no .priority on WSE-3", "give it in @get_dsd")
        priority = choice_of(settings["priority"], CHOICES, "a priority", node.at)
    table = 0
    if "ctrl_table_id" in settings:
        table = integer_of(settings["ctrl_table_id"], node.at)
    key = (queue.integer, is_output)
    earlier = pe.queues.get(key)
    if earlier is not None:
        raise CslError(
            node.at, f"{queue.kind} {queue.number} is initialised twice", note=(earlier.at, "first")
        )
    pe.queues[key] = QueueSetting(queue.integer, is_output, color, priority, table, node.at)
    return VOID


# ---- tasks ----


def _bind(name: str, id_type: t.Type) -> None:
    def evaluate(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
        task = function_of(comptime, node.arguments[0], scope, is_task=True)
        number = number_of(comptime.evaluate(node.arguments[1], scope), id_type, f"@{name}", node.at)
        count = len(task.node.parameters)
        if id_type is t.LOCAL_TASK_ID and count:
            raise CslError(node.at, f"local task {task.node.name} must not have parameters")
        if id_type is t.DATA_TASK_ID and not count:
            raise CslError(node.at, f"data task {task.node.name} needs a parameter for the wavelet's data")
        add_binding(registry(node, scope), TaskBinding(task, t.ID_KINDS[id_type], number, node.at))
        return VOID

    builtin(name, 2, effect=True)(evaluate)


def add_binding(pe: PeRegistry, binding: TaskBinding) -> None:
    """Add a binding of a task to a PE's registry. Raises CslError if the id is taken."""
    for earlier in pe.tasks:
        if (earlier.kind, earlier.id) == (binding.kind, binding.id):
            raise CslError(
                binding.at,
                f"id {binding.id} is bound to {earlier.function.node.name} already",
                note=(earlier.at, "first bound"),
            )
    pe.tasks.append(binding)


def function_of(
    comptime: Comptime, node: Expression, scope: Scope, *, is_task: bool | None = None
) -> FunctionValue:
    """Return the function or task that an expression names. Raises CslError."""
    value = comptime.evaluate(node, scope)
    if not isinstance(value, FunctionValue):
        raise CslError(node.at, f"expected a {'task' if is_task else 'function'}, found {value.type}")
    if is_task is not None and value.is_task != is_task:
        raise CslError(node.at, f"{value.node.name} is {'a task' if value.is_task else 'not a task'}")
    return value


@builtin("bind_task", 2, effect=True)
def _bind_task(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    """Bind a task to a color as in SDK 0.9 and before: whatever names the color starts the task.

    These are wavelets of the color, control wavelets with the id, and `@activate`.
    """
    session = comptime.session
    task = function_of(comptime, node.arguments[0], scope, is_task=True)
    number = number_of(comptime.evaluate(node.arguments[1], scope), t.COLOR, "@bind_task", node.at)
    if session.arch != "wse2":
        raise CslError(
            node.at, "@bind_task is of SDK 0.9, for WSE-2", "use @bind_data_task, @bind_local_task"
        )
    session.note_old(node.at, "@bind_task", "@bind_data_task, @bind_local_task or @bind_control_task")
    pe = registry(node, scope)
    kinds = [isa.ID_LOCAL, isa.ID_CONTROL]
    if task.node.parameters and number < NUM_COLORS:
        kinds.append(isa.ID_DATA)
    for kind in kinds:
        add_binding(pe, TaskBinding(task, kind, number, node.at, is_old=True))
    return VOID


_bind("bind_local_task", t.LOCAL_TASK_ID)
_bind("bind_data_task", t.DATA_TASK_ID)
_bind("bind_control_task", t.CONTROL_TASK_ID)


@builtin("activate", 1, effect=True)
def _activate(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    value = comptime.evaluate(node.arguments[0], scope)
    pe = registry(node, scope)
    if isinstance(value, FunctionValue) and value.is_task:
        bound = [task.id for task in pe.tasks if task.function is value and task.kind == isa.ID_LOCAL]
        if not bound:
            raise CslError(node.at, f"{value.node.name} is not bound to a local task id so far")
        number = bound[0]
    elif isinstance(value, Scalar) and value.kind is t.COLOR and comptime.session.arch == "wse2":
        comptime.session.note_old(node.at, "@activate(color)", "@activate(local_task_id)")
        number = value.integer
    else:
        number = number_of(value, t.LOCAL_TASK_ID, "@activate", node.at)
    pe.activated.append((number, node.at))
    return VOID


def _block(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    value = comptime.evaluate(node.arguments[0], scope)
    kind = t.ID_KINDS.get(value.type, isa.ID_NONE)
    check_blockable(comptime.session.arch, value.type, node)
    assert isinstance(value, Scalar)
    pe = registry(node, scope)
    (pe.blocked if node.name == "block" else pe.unblocked).append((kind, value.integer, node.at))
    return VOID


def check_blockable(arch: str, kind: t.Type, node: BuiltinCall) -> None:
    """Raise CslError if a value of this type cannot be blocked on the architecture [TID]."""
    common: tuple[t.Type, ...] = (t.LOCAL_TASK_ID, t.DATA_TASK_ID)
    allowed = (*common, t.INPUT_QUEUE, t.UT_ID) if arch == "wse3" else (*common, t.COLOR)
    if kind not in allowed:
        names = ", ".join(map(str, allowed))
        raise CslError(node.at, f"@{node.name} on {arch} takes {names}, found {kind}")


builtin("block", 1, effect=True)(_block)
builtin("unblock", 1, effect=True)(_block)


# ---- handlers ----


@builtin("set_teardown_handler", 2, effect=True)
def _set_teardown_handler(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    handler = function_of(comptime, node.arguments[0], scope)
    color = number_of(comptime.evaluate(node.arguments[1], scope), t.COLOR, "a teardown handler", node.at)
    pe = registry(node, scope)
    if color in pe.teardown_handlers:
        raise CslError(node.at, f"color {color} has a teardown handler already")
    pe.teardown_handlers[color] = handler
    return VOID


@builtin("set_empty_queue_handler", 2, effect=True)
def _set_empty_queue_handler(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    if comptime.session.arch != "wse3":
        raise CslError(node.at, "@set_empty_queue_handler exists on WSE-3 only")
    handler = function_of(comptime, node.arguments[0], scope)
    queue = comptime.evaluate(node.arguments[1], scope)
    if not isinstance(queue, Scalar) or queue.kind not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        raise CslError(node.arguments[1].at, f"expected a queue, found {queue.type}")
    key = (queue.integer, queue.kind is t.OUTPUT_QUEUE)
    pe = registry(node, scope)
    if key in pe.empty_handlers:
        raise CslError(node.at, f"{queue.kind} {queue.number} has an empty-queue handler already")
    pe.empty_handlers[key] = handler
    return VOID


@builtin("set_control_task_table", 0, 1, effect=True)
def _set_control_task_table(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    if comptime.session.arch != "wse3":
        raise CslError(node.at, "@set_control_task_table exists on WSE-3 only")
    settings = settings_of(comptime, node, 0, scope, ("instructions", "stride"))
    instructions = integer_of(settings.get("instructions", Scalar(t.U16, 4)), node.at)
    stride = integer_of(settings.get("stride", Scalar(t.U16, 1)), node.at)
    if instructions not in (2, 4, 8):
        raise CslError(node.at, f"an entry has 2, 4 or 8 instructions, found {instructions}")
    pe = registry(node, scope)
    if pe.control_table is not None:
        raise CslError(node.at, "the control task table is set twice")
    pe.control_table = (instructions, check_range(stride, 1, 7, "stride", node.at))
    return VOID


@builtin("bind_rotating_tasks", 4, effect=True)
def _bind_rotating_tasks(comptime: Comptime, node: BuiltinCall, scope: Scope) -> Value:
    if comptime.session.arch != "wse3":
        raise CslError(node.at, "@bind_rotating_tasks exists on WSE-3 only")
    main, alternate = (function_of(comptime, node.arguments[i], scope, is_task=True) for i in (0, 1))
    identity = comptime.evaluate(node.arguments[2], scope)
    number = number_of(identity, t.DATA_TASK_ID, "@bind_rotating_tasks", node.at)
    settings = settings_of(comptime, node, 3, scope, ("limit", "init"))
    if "limit" not in settings:
        raise CslError(node.at, "@bind_rotating_tasks needs a .limit")
    start = integer_of(settings.get("init", Scalar(t.U16, 0)), node.at)
    pe = registry(node, scope)
    if len(pe.rotations) == 2:
        raise CslError(node.at, "at most two pairs of tasks can rotate")
    add_binding(pe, TaskBinding(main, isa.ID_DATA, number, node.at))
    pe.rotations.append((number, main, alternate, integer_of(settings["limit"], node.at), start))
    return VOID
