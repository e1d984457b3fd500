"""Check the queue sets and variables of a NEFF (reference 4.4, 4.5)."""

from npuviz.base.errors import FormatError
from npuviz.base.units import format_bytes
from npuviz.formats.neff.constants import constant_data
from npuviz.formats.neff.model import QueueSet, Subgraph, Variable
from npuviz.formats.neff.rules.table import Report, extra_keys, shown

QUEUE_TYPES = ("in", "out", "data", "embedding_update", "dynamic")
VARIABLE_TYPES = (
    "state-buffer",
    "input",
    "output",
    "file",
    "tmp-buf",
    "virtual",
    "pointer",
    "dge-table",
)
FABRIC_PATHS = ("main", "alt")
OWNERS = ("pe", "act", "activation", "pool", "dve", "sp")
QUEUE_LIMIT = 16
SEMAPHORES = {1: 32, 2: 256, 3: 256, 4: 256}
"""Semaphores per core by generation (reference 1.1: DRV). Assumed: generation 4 as 3."""
EVENTS = 256
DEVICE_BYTES = {1: 8 << 30, 2: 32 << 30, 3: 96 << 30, 4: 144 << 30}
"""Bytes of device memory by generation (reference 1.1: HWDOC)."""
PARTITION_BYTES = {1: 256 << 10, 2: 192 << 10, 3: 224 << 10, 4: 256 << 10}
"""Bytes of one SBUF partition (reference 1.1). Assumed: generation 1 as the largest."""


def check_queue_sets(subgraph: Subgraph, generation: int, report: Report) -> None:
    """Check the rules `queue.*`."""
    owner_of: dict[str, str] = {}
    for queue_set in subgraph.queue_sets.values():
        where = f"{subgraph.folder}/def.json, dma_queue.{queue_set.name}"
        _check_queue_set(queue_set, where, generation, report)
        for instance in queue_set.queue_instances:
            if owner_of.setdefault(instance, queue_set.name) != queue_set.name:
                text = f"{shown(instance)} also belongs to {owner_of[instance]}"
                report.add("queue.instance-unique", f"{where}.queue_instances", text)


def _check_queue_set(queue_set: QueueSet, where: str, generation: int, report: Report) -> None:
    if queue_set.type not in QUEUE_TYPES:
        report.add(
            "queue.type", f"{where}.type", f"{shown(queue_set.type)} is none of {', '.join(QUEUE_TYPES)}"
        )
    if not 1 <= queue_set.num_queues <= QUEUE_LIMIT:
        text = f"expected 1 to {QUEUE_LIMIT}, found {queue_set.num_queues}"
        report.add("queue.num-queues", f"{where}.num_queues", text)
    elif generation == 1 and queue_set.num_queues != 1:
        text = f"expected 1 on Inf1, found {queue_set.num_queues}"
        report.add("queue.num-queues-inf1", f"{where}.num_queues", text)
    if queue_set.owner and queue_set.owner.lower() not in OWNERS:
        report.add(
            "queue.owner", f"{where}.owner", f"{shown(queue_set.owner)} is none of {', '.join(OWNERS)}"
        )
    if queue_set.pinned and generation != 1:
        report.add("queue.pinned", f"{where}.pinned", "only Inf1 pins queues; ignored")
    if queue_set.queue_instances and generation == 1:
        report.add("queue.instances", f"{where}.queue_instances", "Inf1 has no queue instances")
    if queue_set.fabric_path not in FABRIC_PATHS:
        text = f"expected main or alt, found {shown(queue_set.fabric_path)}"
        report.add("queue.fabric-path", f"{where}.fabric_path", text)
    _check_semaphores(queue_set, where, generation, report)
    if queue_set.dynamic_dma is not None:
        offset = queue_set.dynamic_dma.get("SB_scratch_partition_offset", 0)
        size = queue_set.dynamic_dma.get("SB_scratch_partition_size", 0)
        limit = PARTITION_BYTES[generation]
        if offset < 0 or size < 0 or offset + size > limit:
            text = f"bytes {offset} to {offset + size} are not inside the {limit} of a partition"
            report.add("queue.scratch", f"{where}.dynamic_dma", text)
    for key in extra_keys(queue_set.extra):
        report.add("queue.field", where, f"unknown key {shown(key)}")


def _check_semaphores(queue_set: QueueSet, where: str, generation: int, report: Report) -> None:
    limit = SEMAPHORES[generation]
    single = () if queue_set.semaphore is None else (queue_set.semaphore,)
    for index in (*queue_set.semaphore_set, *single):
        if not 0 <= index < limit:
            report.add("queue.semaphore-range", where, f"semaphore {index} is not one of 0 to {limit - 1}")
    if queue_set.semaphore_set and len(queue_set.semaphore_set) != queue_set.num_queues:
        text = f"{len(queue_set.semaphore_set)} semaphores for {queue_set.num_queues} queues"
        report.add("queue.semaphore-count", f"{where}.semaphore_set", text)
    if single and queue_set.num_queues > 1:
        text = f"one semaphore for {queue_set.num_queues} queues"
        report.add("queue.semaphore-single", f"{where}.semaphore", text)


def check_variables(subgraph: Subgraph, generation: int, report: Report) -> None:
    """Check the rules `variable.*`."""
    by_id: dict[int, str] = {}
    for variable in subgraph.variables.values():
        where = f"{subgraph.folder}/def.json, var.{variable.name}"
        if variable.var_id < 0:
            report.add("variable.id", f"{where}.var_id", f"{variable.var_id} is negative")
        elif by_id.setdefault(variable.var_id, variable.name) != variable.name:
            text = f"{variable.var_id} is also that of {by_id[variable.var_id]}"
            report.add("variable.id", f"{where}.var_id", text)
    for variable in subgraph.variables.values():
        where = f"{subgraph.folder}/def.json, var.{variable.name}"
        _check_place(variable, where, generation, report)
        _check_type(variable, where, by_id, report)
        if variable.type == "file":
            _check_file(subgraph, variable, where, report)
        for key in extra_keys(variable.extra):
            if key != "ops":
                report.add("variable.field", where, f"unknown key {shown(key)}")


def _check_place(variable: Variable, where: str, generation: int, report: Report) -> None:
    limit = DEVICE_BYTES[generation]
    if variable.size is None:
        if variable.type not in ("state-buffer", "dge-table"):
            report.add("variable.size-missing", f"{where}.size", f"type {shown(variable.type)} needs a size")
    elif variable.size < 0:
        report.add("variable.size", f"{where}.size", f"{variable.size} is negative")
    elif variable.size > limit:
        text = f"{format_bytes(variable.size)} do not fit the device's {format_bytes(limit)}"
        report.add("variable.oversize", f"{where}.size", text)
    if variable.alignment < 0 or variable.alignment & (variable.alignment - 1):
        text = f"expected 0 or a power of two, found {variable.alignment}"
        report.add("variable.alignment", f"{where}.alignment", text)
    elif variable.alignment and (variable.backing_variable_off or 0) % variable.alignment:
        text = f"{variable.backing_variable_off} is no multiple of the alignment {variable.alignment}"
        report.add("variable.unaligned", f"{where}.backing_variable_off", text)
    if variable.fabric_path not in FABRIC_PATHS:
        text = f"expected main or alt, found {shown(variable.fabric_path)}"
        report.add("variable.fabric-path", f"{where}.fabric_path", text)


def _check_type(variable: Variable, where: str, by_id: dict[int, str], report: Report) -> None:
    kind = variable.type
    if kind not in VARIABLE_TYPES:
        report.add("variable.type", f"{where}.type", f"{shown(kind)} is none of {', '.join(VARIABLE_TYPES)}")
    restricted = (
        ("variable.file-name-type", "file_name", variable.file_name, "file"),
        ("variable.backing-type", "backing_variable_off", variable.backing_variable_off, "virtual"),
        ("variable.pointer-type", "referenced_var_id", variable.referenced_var_id, "pointer"),
        ("variable.list-type", "list", variable.table, "dge-table"),
    )
    for rule, key, value, only in restricted:
        if value is not None and kind != only:
            report.add(rule, f"{where}.{key}", f"only for type {only}, here the type is {shown(kind)}")
    if (variable.backing_variable_off or 0) < 0:
        text = f"{variable.backing_variable_off} is negative"
        report.add("variable.backing-offset", f"{where}.backing_variable_off", text)
    if kind == "file" and not variable.file_name:
        report.add("variable.file-name", f"{where}.file_name", "type file needs one")
    if kind == "pointer" and variable.referenced_var_id not in by_id:
        text = f"no variable has var_id {variable.referenced_var_id}"
        report.add("variable.pointer", f"{where}.referenced_var_id", text)
    for entry in (variable.table or ()) if kind == "dge-table" else ():
        if entry not in by_id:
            report.add("variable.list", f"{where}.list", f"no variable has var_id {entry}")


def _check_file(subgraph: Subgraph, variable: Variable, where: str, report: Report) -> None:
    if not variable.file_name:
        return
    if variable.file_name not in subgraph.files:
        text = f"no member {shown(variable.file_name)} in {subgraph.folder}"
        report.add("variable.file", f"{where}.file_name", text)
        return
    try:
        size = len(constant_data(subgraph, variable))
    except FormatError as error:
        report.add("variable.npy", f"{where}.file_name", f"{shown(variable.file_name)}: found {error.found}")
        return
    if variable.size is not None and size != variable.size:
        text = f"the file has {size} bytes of data for a variable of {variable.size}"
        report.add("variable.file-size", f"{where}.file_name", text)
