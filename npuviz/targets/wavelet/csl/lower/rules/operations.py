"""Lower DSD operations and loads of DSRs: operand forms, settings, one row of the operation table per use."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import DsdValue, Scalar, StructValue
from npuviz.targets.wavelet.csl.lower.dispatch import arguments, builtin, lower
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.operands import VOID_HELD, Held, Known, Operand
from npuviz.targets.wavelet.csl.lower.operation_forms import OPERATIONS, DsdOperation, describe_forms
from npuviz.targets.wavelet.csl.lower.rules.calls import can_activate, id_of, id_operand
from npuviz.targets.wavelet.csl.lower.rules.dsd import (
    PRIORITIES,
    address_of,
    known_choice,
    known_flag,
    struct_fields,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa as k

_SETTINGS = frozenset(
    (
        *("async", "activate", "unblock", "on_control", "index"),
        *("priority", "ut_id", "save_address", "single_step"),
    )
)
_FORM_KINDS = {"d": k.OPERAND_DSD, "s": k.OPERAND_DSD, "p": k.OPERAND_POINTER, "v": k.OPERAND_SCALAR}
_FABRIC = (t.FABIN, t.FABOUT)
Row = dict[int, int]
Setting = tuple["tree.Expression | None", "Operand | None"]
"""A field of a settings struct: its text, or its operand."""


@builtin(*OPERATIONS)
def _operation(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    register = f.target(into)
    lower_operation(f, node, register)
    return Held(t.BOOL, register)


def lower_operation(f: FunctionLowering, node: tree.BuiltinCall, result: int) -> None:
    """Lower a DSD operation; its bool result goes to register `result` (-1: dropped)."""
    operation = OPERATIONS[node.name]
    mark = f.registers.next
    sizes = {len(form) for form in operation.forms}
    nodes = list(node.arguments)
    settings: tree.Expression | None = None
    if len(nodes) - 1 in sizes and len(nodes) not in sizes:
        settings = nodes.pop()
    if len(nodes) not in sizes:
        raise CslError(node.at, f"@{node.name} has {len(nodes)} operands; forms: {describe_forms(node.name)}")
    operands = [lower(f, inner) for inner in nodes]
    form = _form(node, operation, operands)
    if operation.code == k.D_FADDHS and _is_half_second(form, operands):
        form = form[0] + form[2] + form[1]  # a sum: the processor takes the f16 first
        operands[1:], nodes[1:] = operands[:0:-1], nodes[:0:-1]
    row: Row = {k.O_OPERATION: operation.code, k.O_RESULT: result, k.O_LINE: f.pe.tables.place(node.at)}
    column = 0 if form[0] in "dp" else 1  # @dfilt has no destination
    for letter, operand, inner in zip(form, operands, nodes, strict=True):
        held = _operand(f, operation, letter, form, operand, inner, column)
        row[k.O_DST_KIND + column] = _FORM_KINDS[letter]
        row[k.O_DST + column] = held.register
        column += 1
    _check_kinds(f, node, operands, form)
    if settings is not None:
        lower_settings(f, settings, row)
    if row.get(k.O_ASYNC) and not any(o.type in (*_FABRIC, t.FIFO, *t.DSR_FILES) for o in operands):
        raise CslError(node.at, "an asynchronous operation needs a fabric operand")
    f.at(node)
    f.emitter.emit(k.OP_DSD, imm=f.pe.tables.operation(row))
    f.registers.release(mark)


def _letter(operand: Operand) -> str:
    kind = operand.type
    if kind in t.DSD_KINDS or kind in t.DSR_FILES:
        return "d"
    if isinstance(kind, t.PointerType):
        return "p"
    return "v"


def _form(node: tree.BuiltinCall, operation: DsdOperation, operands: list[Operand]) -> str:
    found = "".join(map(_letter, operands))
    for form in operation.forms:
        if form.replace("s", "d") == found:
            return form
    kinds = ", ".join(str(operand.type) for operand in operands)
    raise CslError(node.at, f"@{node.name} does not take ({kinds})", f"forms: {describe_forms(node.name)}")


def _is_half_second(form: str, operands: list[Operand]) -> bool:
    """Return whether the f16 of an @faddhs is its second source: a scalar, or as the descriptors say."""
    if form == "dsv":
        return True
    return form == "dss" and [_element_bytes(operand) for operand in operands[1:]] == [4, 2]


def _element_bytes(operand: Operand) -> int:
    """Return the bytes of the elements that a descriptor describes; 0 if they are known at run time only."""
    value = operand.value if isinstance(operand, Known) else None
    if not isinstance(value, DsdValue) or value.base is None:
        return 0
    kind = value.base.kind.pointee
    return (kind.element if isinstance(kind, t.ArrayType) else kind).size


def _operand(
    f: FunctionLowering,
    operation: DsdOperation,
    letter: str,
    form: str,
    operand: Operand,
    node: tree.Expression,
    column: int,
) -> Held:
    if letter == "v":
        return f.hold(_scalar(f, operation, form, operand, node, column), node.at)
    if letter == "p":
        kind = operand.type
        assert isinstance(kind, t.PointerType)
        pointee = kind.element
        if str(pointee) not in operation.pointee:
            wanted = " or ".join(operation.pointee)
            raise CslError(node.at, f"expected a pointer to {wanted}, found {kind}")
        if kind.const:
            raise CslError(node.at, "the destination is constant")
    return f.hold(operand, node.at)


def _scalar(
    f: FunctionLowering,
    operation: DsdOperation,
    form: str,
    operand: Operand,
    node: tree.Expression,
    column: int,
) -> Operand:
    wanted = operation.values
    if operation.code == k.D_FADDHS and form[0] == "p":
        wanted = ("f32",)
    if operation.code in (k.D_FSCALEH, k.D_FSCALES) and column == 2:
        wanted = ("i16",)
    kind = operand.type
    if str(kind) in wanted:
        return operand
    if isinstance(operand, Known):
        number = operand.value.number if isinstance(operand.value, Scalar) else 0
        names = wanted if not (isinstance(number, int) and number < 0) else tuple(reversed(wanted))
        first = t.named_type(names[0])
        assert first is not None
        return f.coerce(operand, first, node.at)
    if f.pe.half is not t.F16 and kind is f.pe.half and "f16" in wanted:
        return operand
    first = t.named_type(wanted[0])
    assert first is not None
    try:
        return f.coerce(operand, first, node.at)
    except CslError:
        raise CslError(node.at, f"expected a {' or '.join(wanted)}, found {kind}") from None


def _check_kinds(f: FunctionLowering, node: tree.BuiltinCall, operands: list[Operand], form: str) -> None:
    sources = operands[1:] if form[0] in "dp" else operands
    target = operands[0].type if form[0] in "dp" else None
    if target is t.FABIN:
        raise CslError(node.arguments[0].at, "a fabin_dsd cannot be a destination")
    if target is t.DSR_SRC1:
        raise CslError(node.arguments[0].at, "a dsr_src1 cannot be a destination")
    for operand in (*operands,):
        if operand.type is t.CIRCBUF:
            raise CslError(node.at, "a circbuf_dsd cannot be an operand", "load it with @load_to_dsr_xdsr")
    vectors = [operand for operand in sources if _letter(operand) == "d"]
    for operand in vectors:
        if operand.type in (t.FABOUT, t.DSR_DEST):
            raise CslError(node.at, f"a {operand.type} cannot be a source")
    fifos = [number for number, operand in enumerate(vectors) if operand.type is t.FIFO]
    if len(fifos) > 1 or (len(vectors) > 1 and 0 in fifos):
        raise CslError(node.at, "with several sources only one can be a FIFO, and not the first")
    if f.pe.arch != "wse2" and sum(operand.type is t.FABIN for operand in vectors) > 1:
        raise CslError(node.at, "WSE-3 allows only one fabin_dsd per operation")


# ---- settings ----


def _settings_fields(f: FunctionLowering, node: tree.Expression) -> dict[str, Setting]:
    """Return the fields of a settings struct; a literal is lowered field by field, because it may name a
    task."""
    while isinstance(node, tree.IfExpression):
        value = f.require_known(node.condition, "the condition", t.BOOL)
        chosen = node.then if isinstance(value, Scalar) and value.number else node.otherwise
        if chosen is None:
            return {}
        node = chosen
    if isinstance(node, tree.StructLiteral) and node.type is None:
        return {part.name: (part.value, None) for part in node.fields}
    return {name: (None, operand) for name, operand in struct_fields(lower(f, node), node.at).items()}


def lower_settings(f: FunctionLowering, node: tree.Expression, row: Row) -> None:
    """Fill the settings columns of an operation row."""
    fields = _settings_fields(f, node)
    for name in fields:
        if name not in _SETTINGS:
            raise CslError(node.at, f"there is no setting {name}", f"known: {', '.join(sorted(_SETTINGS))}")

    def operand(name: str) -> Operand | None:
        inner, value = fields.get(name, (None, None))
        return lower(f, inner) if inner is not None else value

    row[k.O_ASYNC] = int(known_flag(operand("async"), node.at, "async"))
    if "activate" in fields and "unblock" in fields:
        raise CslError(node.at, "an operation can have .activate or .unblock, not both")
    if "activate" in fields:
        row[k.O_ACTIVATE], kind = _id(f, fields["activate"], node)
        if not can_activate(f, kind):
            raise CslError(node.at, ".activate takes a local_task_id or a local task")
    if "unblock" in fields:
        row[k.O_UNBLOCK], row[k.O_UNBLOCK_KIND] = _id(f, fields["unblock"], node)
    if "on_control" in fields:
        _on_control(f, fields["on_control"], node, row)
    if "index" in fields:
        row[k.O_INDEX] = _typed(f, operand("index"), t.U16, node)
    if "ut_id" in fields:
        if f.pe.arch == "wse2":
            raise CslError(node.at, ".ut_id exists on WSE-3 only")
        row[k.O_UT] = _typed(f, operand("ut_id"), t.UT_ID, node)
    if "priority" in fields:
        row[k.O_PRIORITY] = known_choice(operand("priority"), PRIORITIES, node.at, "priority")
    row[k.O_SAVE_ADDRESS] = int(known_flag(operand("save_address"), node.at, "save_address"))
    row[k.O_SINGLE_STEP] = int(known_flag(operand("single_step"), node.at, "single_step"))


def _typed(f: FunctionLowering, operand: Operand | None, kind: t.Type, node: tree.Expression) -> int:
    assert operand is not None
    return f.hold(f.coerce(operand, kind, node.at), node.at).register


def _id(f: FunctionLowering, field: Setting, node: tree.Expression) -> tuple[int, int]:
    inner, value = field
    if inner is not None:
        return id_operand(f, inner)
    assert value is not None
    return id_of(f, value, node.at)


def _on_control(f: FunctionLowering, field: Setting, node: tree.Expression, row: Row) -> None:
    inner, value = field
    if inner is not None:
        fields = _settings_fields(f, inner)
    else:
        assert value is not None
        fields = {name: (None, part) for name, part in struct_fields(value, node.at).items()}
    if len(fields) != 1:
        raise CslError(node.at, ".on_control takes one of .terminate, .activate, .unblock")
    ((name, part),) = fields.items()
    if name == "terminate":
        operand = lower(f, part[0]) if part[0] is not None else part[1]
        row[k.O_CONTROL] = int(known_flag(operand, node.at, "terminate"))
    elif name in ("activate", "unblock"):
        row[k.O_CONTROL] = 2 if name == "activate" else 3
        row[k.O_CONTROL_ID], row[k.O_CONTROL_KIND] = _id(f, part, node)
    else:
        raise CslError(node.at, f".on_control has no value {name}")


# ---- DSRs ----


@builtin("load_to_dsr")
def _load(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    parts = arguments(node, 2, 3)
    row: Row = {k.O_LINE: f.pe.tables.place(node.at)}
    return _load_dsr(f, node, parts[0], parts[1], parts[2] if len(parts) == 3 else None, row)


def _load_dsr(
    f: FunctionLowering,
    node: tree.BuiltinCall,
    dsr_node: tree.Expression,
    dsd_node: tree.Expression,
    settings: tree.Expression | None,
    row: Row,
) -> Operand:
    dsr = _dsr(f, dsr_node)
    dsd = f.hold(lower(f, dsd_node), dsd_node.at)
    file = t.DSR_FILES[dsr.kind]
    if dsd.kind not in t.DSD_KINDS:
        raise CslError(dsd_node.at, f"expected a DSD, found {dsd.kind}")
    if (dsd.kind is t.FABIN and file == 0) or (dsd.kind is t.FABOUT and file != 0):
        raise CslError(dsd_node.at, f"a {dsd.kind} cannot be loaded into a {dsr.kind}")
    if k.O_SHAPE not in row and dsd.kind in (t.MEM4D, t.CIRCBUF, t.FIFO):
        raise CslError(dsd_node.at, f"a {dsd.kind} needs @load_to_dsr_xdsr or @load_to_dsr_xdsr_sr")
    if settings is not None:
        lower_settings(f, settings, row)
    f.at(node)
    f.emitter.emit(k.OP_DSR_LOAD, file, dsr.integer, dsd.register, f.pe.tables.operation(row))
    return VOID_HELD


@builtin("set_dsr_base_addr")
def _set_base(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    dsr_node, base = arguments(node, 2)
    f.comptime.session.note_old(node.at, "@set_dsr_base_addr", "@set_dsd_base_addr and @load_to_dsr")
    dsr = _dsr(f, dsr_node)
    address = address_of(f, base)
    f.at(node)
    f.emitter.emit(k.OP_DSR_LOAD, t.DSR_FILES[dsr.kind], dsr.integer, address.register, k.DSR_BASE)
    return VOID_HELD


def _dsr(f: FunctionLowering, node: tree.Expression) -> Scalar:
    dsr = f.require_known(node, "a DSR")
    if not isinstance(dsr, Scalar) or dsr.kind not in t.DSR_FILES:
        raise CslError(node.at, f"expected a DSR, found {dsr.type}")
    return dsr


@builtin("load_to_dsr_xdsr")
def _load_circular(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    parts = arguments(node, 3, 4)
    row: Row = {k.O_LINE: f.pe.tables.place(node.at), k.O_SHAPE: _register_id(f, parts[1])}
    return _load_dsr(f, node, parts[0], parts[2], parts[3] if len(parts) == 4 else None, row)


@builtin("load_to_dsr_xdsr_sr")
def _load_tensor(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    parts = arguments(node, 4, 5)
    ids = f.require_known(parts[2], "the stride registers")
    packed = _register_id(f, parts[1])
    if isinstance(ids, StructValue):
        for number, value in enumerate(ids.fields.values(), 1):
            packed |= (value.integer if isinstance(value, Scalar) else 0) << 8 * number
    row: Row = {k.O_LINE: f.pe.tables.place(node.at), k.O_SHAPE: packed}
    return _load_dsr(f, node, parts[0], parts[3], parts[4] if len(parts) == 5 else None, row)


def _register_id(f: FunctionLowering, node: tree.Expression) -> int:
    value = f.require_known(node, "an XDSR")
    if not isinstance(value, Scalar):
        raise CslError(node.at, f"expected an XDSR, found {value.type}")
    return value.integer
