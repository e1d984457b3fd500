"""Check the DMA entries of an engine (reference 4.6), fast enough for 50,000 of them."""

from collections import Counter, defaultdict
from math import prod

from npuviz.formats.neff.model import Access, Descriptor, DmaEntry, EngineFile, Subgraph
from npuviz.formats.neff.rules.resources import EVENTS, SEMAPHORES
from npuviz.formats.neff.rules.table import Report, extra_keys, shown

OPS = ("copy", "cast", "add", "fma", "min", "max", "transpose")
CCE_OPS = ("fma", "add", "min", "max")
"""Operations of the DMA engines' compute part; these may have several sources."""
DTYPE_BYTES = {
    "float8e3": 1,
    "float8e4": 1,
    "float8e5": 1,
    "float16": 2,
    "float32": 4,
    "float32r": 4,
    "bfloat16": 2,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
}
RANK_LIMIT = 4
SOURCE_LIMIT = 16
_INT_RANGES = {"int32": (-(1 << 31), (1 << 31) - 1), "uint32": (0, (1 << 32) - 1)}


class _Context:
    """Everything against which the entries of one engine are checked."""

    def __init__(
        self, subgraph: Subgraph, engine: EngineFile, generation: int, lnc: int, report: Report
    ) -> None:
        self.subgraph = subgraph
        self.engine = engine
        self.generation = generation
        self.lnc_size = lnc
        self.report = report
        self.member = f"{subgraph.folder}/{engine.json_name or engine.name + '.json'}"
        self.sizes = {name: variable.size for name, variable in subgraph.variables.items()}
        self.set_of_instance = {
            instance: name for name, each in subgraph.queue_sets.items() for instance in each.queue_instances
        }
        self.has_foreign_owner = {
            name: bool(each.owner) and not engine.name.lower().startswith(each.owner.lower()[:3])
            for name, each in subgraph.queue_sets.items()
        }

    def add(self, rule: str, index: int, key: str, text: str) -> None:
        entry = self.engine.descriptors[index]
        self.report.add(rule, f"{self.member}, dma[{index}] (id {entry.id}){key}", text)


def check_engine_dma(
    subgraph: Subgraph, engine: EngineFile, generation: int, lnc_size: int, report: Report
) -> None:
    """Check the rules `dma.*` and `desc.*` for the entries of one engine."""
    context = _Context(subgraph, engine, generation, lnc_size, report)
    for index, entry in enumerate(engine.descriptors):
        _check_queue(context, index, entry)
        _check_signals(context, index, entry)
        if generation == 1:
            _check_inf1(context, index, entry)
        if entry.extra:
            for key in extra_keys(entry.extra):
                context.add("dma.field", index, "", f"unknown key {shown(key)}")
        _check_descriptor(context, index, entry.desc)
    _check_amounts(context)


def _check_queue(context: _Context, index: int, entry: DmaEntry) -> None:
    queue = entry.queue
    if entry.instance_name:
        queue = context.set_of_instance.get(entry.instance_name, "")
        if not queue:
            text = f"{shown(entry.instance_name)} is an instance of no queue set"
            context.add("dma.instance-declared", index, ".instance_name", text)
    elif not queue:
        context.add("dma.queue", index, "", "neither queue nor instance_name")
    elif queue not in context.subgraph.queue_sets:
        context.add("dma.queue-declared", index, ".queue", f"no queue set is called {shown(queue)}")
    if context.has_foreign_owner.get(queue):
        owner = context.subgraph.queue_sets[queue].owner
        context.add("dma.owner", index, ".queue", f"{queue} belongs to {owner}, not to {context.engine.name}")


def _check_signals(context: _Context, index: int, entry: DmaEntry) -> None:
    limit = SEMAPHORES[context.generation]
    if entry.event is not None and not 0 <= entry.event < EVENTS:
        context.add("dma.event-range", index, ".event", f"{entry.event} is not one of 0 to {EVENTS - 1}")
    if entry.semaphore is not None and not 0 <= entry.semaphore < limit:
        text = f"{entry.semaphore} is not one of 0 to {limit - 1}"
        context.add("dma.semaphore-range", index, ".semaphore", text)
    if not entry.remote_semaphores:
        return
    key = ".remote_semaphores"
    if context.generation < 3:
        context.add("dma.remote-machine", index, key, "only Trn2 and later have them")
    elif context.lnc_size != 2:
        context.add("dma.remote-lnc", index, key, f"there is no other core: lnc_size is {context.lnc_size}")
    for each in entry.remote_semaphores:
        if not 0 <= each < limit:
            context.add("dma.semaphore-range", index, key, f"{each} is not one of 0 to {limit - 1}")


def _check_inf1(context: _Context, index: int, entry: DmaEntry) -> None:
    desc = entry.desc
    if entry.instance_name:
        context.add("dma.instance-inf1", index, ".instance_name", "Inf1 has no queue instances")
    if entry.function_start:
        context.add("dma.function-inf1", index, ".function_start", "Inf1 has no functions")
    if entry.section_start_desc:
        context.add("dma.section-inf1", index, ".section_start_desc", "Inf1 has no sections")
    if desc.op in OPS and desc.op != "copy":
        context.add("desc.op-inf1", index, ".desc.op", f"Inf1 only copies, found {desc.op}")
    if desc.uses_from_arr:
        context.add("desc.from-arr-inf1", index, ".desc.from_arr", "Inf1 has one source")
    if any(access.dtype != "uint8" for access in (desc.to_access, *desc.sources)):
        context.add("desc.dtype-inf1", index, ".desc", "Inf1 moves bytes only")


def _check_descriptor(context: _Context, index: int, desc: Descriptor) -> None:
    is_sound = _check_access(context, index, desc.to_access, "to")
    for source in desc.sources:
        is_sound = _check_access(context, index, source, "from") and is_sound
    op = desc.op
    if op not in OPS:
        context.add("desc.op", index, ".desc.op", f"{shown(op)} is none of {', '.join(OPS)}")
        return
    if desc.uses_from_arr:
        if op not in CCE_OPS:
            context.add("desc.from-arr", index, ".desc.from_arr", f"{op} takes one source in from")
        if not 1 <= len(desc.sources) <= SOURCE_LIMIT:
            text = f"expected 1 to {SOURCE_LIMIT}, found {len(desc.sources)}"
            context.add("desc.sources", index, ".desc.from_arr", text)
    if desc.num_tiling_dimensions is not None and not 1 <= desc.num_tiling_dimensions <= RANK_LIMIT:
        text = f"expected 1 to {RANK_LIMIT}, found {desc.num_tiling_dimensions}"
        context.add("desc.tiling", index, ".desc.num_tiling_dimensions", text)
    _check_scale(context, index, desc)
    _check_constant(context, index, desc)
    if is_sound:
        _check_count(context, index, desc)
        _check_transpose(context, index, desc)
    for access in desc.sources:
        if access.extra:
            for key in extra_keys(access.extra):
                context.add("desc.field", index, ".desc.from_arr", f"unknown key {shown(key)}")
    if desc.extra:
        for key in extra_keys(desc.extra):
            context.add("desc.field", index, ".desc", f"unknown key {shown(key)}")


def _check_access(context: _Context, index: int, access: Access, side: str) -> bool:
    """Check one side; return False if its sizes cannot be compared with the other side's."""
    key = f".desc.{side}"
    if access.dtype not in DTYPE_BYTES:
        context.add(
            "desc.dtype", index, f"{key}_dtype", f"{shown(access.dtype)} is no dtype of the DMA engines"
        )
        return False
    if not 1 <= len(access.sizes) <= RANK_LIMIT or len(access.sizes) != len(access.steps):
        text = (
            f"expected equal lengths of 1 to {RANK_LIMIT}, found {len(access.steps)} and {len(access.sizes)}"
        )
        context.add("desc.rank", index, f"{key}_steps and {side}_sizes", text)
        return False
    if min(access.sizes) < 1:
        context.add("desc.sizes", index, f"{key}_sizes", f"{min(access.sizes)} is less than 1")
        return False
    if access.variable not in context.sizes:
        context.add("desc.variable", index, key, f"no variable is called {shown(access.variable)}")
        return True
    size = context.sizes[access.variable]
    low, high = access.span
    # Where a variable without a size ends depends on the program.
    if low < 0 or (size is not None and high >= size):
        text = f"bytes {low} to {high} are not inside variable {access.variable}"
        text += f" of {size} bytes" if size is not None else ""
        context.add("desc.bounds", index, key, text)
    return True


def _check_scale(context: _Context, index: int, desc: Descriptor) -> None:
    scales = [source for source in desc.sources if source.scale is not None]
    if (desc.scale is not None or scales) and desc.op != "fma":
        context.add("desc.scale", index, ".desc.scale", f"only for fma, here op is {desc.op}")
    if desc.scale_dtype is not None and (desc.op != "fma" or desc.scale_dtype != "float32"):
        text = f"only float32 and only for fma, found {shown(desc.scale_dtype)} for {desc.op}"
        context.add("desc.scale-dtype", index, ".desc.scale_dtype", text)


def _check_constant(context: _Context, index: int, desc: Descriptor) -> None:
    if desc.constant is None and desc.constant_dtype is None:
        return
    is_extreme = desc.op in ("min", "max")
    dtype = desc.constant_dtype
    if desc.constant is not None and not is_extreme:
        context.add("desc.constant", index, ".desc.constant", f"only for min and max, here op is {desc.op}")
    if dtype is None:
        if is_extreme:
            context.add("desc.constant-ignored", index, ".desc.constant", "ignored without constant_dtype")
        return
    if not is_extreme or dtype not in ("float32", *_INT_RANGES):
        text = f"float32, int32 or uint32 for min and max, found {shown(dtype)} for {desc.op}"
        context.add("desc.constant-dtype", index, ".desc.constant_dtype", text)
    elif desc.constant is None:
        context.add("desc.constant-missing", index, ".desc.constant", "constant_dtype needs one")
    elif dtype in _INT_RANGES:
        low, high = _INT_RANGES[dtype]
        if not isinstance(desc.constant, int) or not low <= desc.constant <= high:
            context.add("desc.constant-value", index, ".desc.constant", f"{desc.constant} is no {dtype}")


def _check_count(context: _Context, index: int, desc: Descriptor) -> None:
    """Check that both sides move the same number of elements (of bytes, for a copy or a transpose)."""
    moves_bytes = desc.op in ("copy", "transpose")
    target = desc.to_access
    wanted = _element_count(context, index, target, "to", moves_bytes)
    for source in desc.sources:
        count = _element_count(context, index, source, "from", moves_bytes)
        if wanted is not None and count is not None and count != wanted:
            unit = "bytes" if moves_bytes else "elements"
            text = f"{count} {unit} of {source.variable} for {wanted} of {target.variable}"
            context.add("desc.count", index, ".desc", text)


def _element_count(context: _Context, index: int, access: Access, side: str, moves_bytes: bool) -> int | None:
    count = access.byte_count
    if moves_bytes:
        return count
    item = DTYPE_BYTES[access.dtype]
    if access.sizes[0] % item:
        text = f"{access.sizes[0]} bytes are no whole number of {access.dtype}"
        context.add("desc.element", index, f".desc.{side}_sizes", text)
        return None
    return count // item


def _check_transpose(context: _Context, index: int, desc: Descriptor) -> None:
    shape = desc.transpose_shape
    item = desc.transpose_element_size
    if desc.op != "transpose":
        if shape is not None or item is not None:
            text = f"transpose_shape and transpose_element_size are not for {desc.op}"
            context.add("desc.transpose-op", index, ".desc", text)
        return
    if shape is not None and (len(shape) != 4 or min(shape) < 1):
        text = f"expected 4 positive numbers, found {shown(list(shape))}"
        context.add("desc.transpose-shape", index, ".desc.transpose_shape", text)
    elif shape is None or item is None:
        context.add(
            "desc.transpose-missing", index, ".desc", "transpose_shape or transpose_element_size is missing"
        )
    elif item < 1 or prod(shape) * item != desc.to_access.byte_count:
        text = f"{list(shape)} elements of {item} bytes are not the {desc.to_access.byte_count} bytes moved"
        context.add("desc.transpose-size", index, ".desc.transpose_shape", text)


def _check_amounts(context: _Context) -> None:
    """Check that every queue of a function has the same number of entries of one id.

    Assumed: the trigger amount of NEFFDOC is the number of entries that one trigger starts on a queue.
    """
    amounts: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    first: dict[tuple[str, int], int] = {}
    function_of: dict[str, str] = {}
    for index, entry in enumerate(context.engine.descriptors):
        queue_set = context.set_of_instance.get(entry.instance_name, entry.instance_name) or entry.queue
        if entry.function_start:
            function_of[queue_set] = entry.function_start
        key = function_of.get(queue_set, ""), entry.id
        first.setdefault(key, index)
        amounts[key][entry.instance_name or entry.queue] += 1
    for key, counts in amounts.items():
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{count} on {name}" for name, count in list(counts.items())[:4])
            context.add(
                "dma.trigger-amounts", first[key], "", f"unequal numbers of entries of one id: {listed}"
            )
