"""List the rules that a NEFF has to keep, one row each: name, severity, machines, source, what is demanded.

Sources: NEFFDOC is the vendor's page about NEFF files, 1.1 the table of generations in the project's
reference, "measured" a real NEFF, "inferred" a rule that follows from the others.
"""

from collections import Counter
from dataclasses import dataclass

from npuviz.formats.neff.json_members import one_line
from npuviz.formats.neff.model import Finding

FINDINGS_PER_RULE = 50
"""Most findings that are listed per rule, so that 50,000 bad descriptors do not give 50,000 lines."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One restriction. Only fatal ones keep a file from being opened."""

    name: str
    severity: str
    demand: str
    machines: str
    source: str
    is_fatal: bool


def _rows(text: str) -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for line in text.strip().splitlines():
        name, kind, machines, source, demand = (part.strip() for part in line.split("|"))
        severity = "warning" if kind == "warning" else "error"
        found[name] = Rule(name, severity, demand, machines, source, kind == "fatal")
    return found


RULES = _rows("""
header.hash | warning | all | inferred | the hash is that of the content
header.package-version | warning | all | KLR | pkg_version is 1 or 2
header.version | warning | all | PKG, measured | the NEFF version is 0.x, 1.x or 2.0
header.features | warning | all | measured | every feature bit has been seen before
header.lnc-size | warning | all | measured | lnc_size is the number of subgraphs
header.lnc-machine | warning | inf1, trn1 | 1.3 | lnc_size 2 only on Trn2 and later
header.unused | warning | all | inferred | nothing follows the content
kelf.target | warning | all | measured | the target is a known machine
kelf.version | warning | all | measured | the version of kelf-0.json is 0.5
graph.tensor-size | warning | all | inferred | an input or output of neff.json fills its variable
definition.version | warning | all | measured | the version of def.json is 0.6
definition.field | warning | all | NEFFDOC | def.json has no unknown keys
engine.missing | warning | trn1, trn2, trn3 | measured | all five engines have a program
engine.program-size | warning | all | measured | a program is a whole number of 64-byte slots
engine.field | warning | all | NEFFDOC | an engine's JSON has no unknown keys
engine.table | warning | all | NEFFDOC | files that an engine's JSON names are in the archive
engine.debug-file | warning | all | measured | debug files that def.json names are in the archive
queue.type | fatal | all | NEFFDOC | a queue set has a known type
queue.num-queues | fatal | all | NEFFDOC | num_queues is 1 to 16
queue.num-queues-inf1 | fatal | inf1 | NEFFDOC | num_queues is 1
queue.owner | warning | all | measured | the owner is one of the five engines
queue.pinned | warning | all but inf1 | NEFFDOC | pinned is only for Inf1
queue.instances | fatal | inf1 | NEFFDOC | queue_instances are not for Inf1
queue.instance-unique | fatal | all | inferred | an instance belongs to one queue set
queue.fabric-path | fatal | all | NEFFDOC | fabric_path is main or alt
queue.semaphore-range | fatal | all | 1.1 | a semaphore is one that the machine has
queue.semaphore-count | warning | all | measured | semaphore_set has one semaphore per queue
queue.semaphore-single | warning | all | NEFFDOC | semaphore is for a set of one queue
queue.scratch | fatal | all | measured | dynamic_dma lies inside a partition
queue.field | warning | all | NEFFDOC | a queue set has no unknown keys
variable.type | fatal | all | NEFFDOC | a variable has a known type
variable.id | fatal | all | NEFFDOC | var_id is not negative and belongs to one variable
variable.size-missing | error | all | NEFFDOC, measured | all but state-buffer and dge-table have a size
variable.size | fatal | all | inferred | a size is not negative
variable.oversize | fatal | all | 1.1 | a variable fits the device's memory
variable.alignment | fatal | all | NEFFDOC | an alignment is 0 or a power of two
variable.unaligned | fatal | all | NEFFDOC | backing_variable_off is a multiple of the alignment
variable.fabric-path | fatal | all | NEFFDOC | fabric_path is main or alt
variable.file-name-type | fatal | all | NEFFDOC | file_name is only for type file
variable.file-name | fatal | all | NEFFDOC | type file has a file_name
variable.file | fatal | all | NEFFDOC | the file of a constant is in the archive
variable.npy | fatal | all | NEFFDOC | a .npy file has a right header
variable.file-size | warning | all | inferred | the data of a constant has the variable's size
variable.backing-type | fatal | all | NEFFDOC | backing_variable_off is only for type virtual
variable.backing-offset | fatal | all | inferred | backing_variable_off is not negative
variable.pointer-type | fatal | all | NEFFDOC | referenced_var_id is only for type pointer
variable.pointer | fatal | all | NEFFDOC | a pointer names an existing var_id
variable.list-type | fatal | all | NEFFDOC | list is only for type dge-table
variable.list | fatal | all | NEFFDOC | list names existing var_ids
variable.field | warning | all | NEFFDOC | a variable has no unknown keys
dma.queue | fatal | all | NEFFDOC | a descriptor names a queue or an instance
dma.queue-declared | fatal | all | NEFFDOC | the queue is declared in def.json
dma.instance-declared | fatal | all but inf1 | NEFFDOC | the instance is declared by a queue set
dma.instance-inf1 | fatal | inf1 | NEFFDOC | instance_name is not for Inf1
dma.function-inf1 | fatal | inf1 | NEFFDOC | function_start is not for Inf1
dma.section-inf1 | fatal | inf1 | NEFFDOC | section_start_desc is not for Inf1
dma.owner | warning | all | NEFFDOC | the queue's owner is the engine that triggers it
dma.event-range | fatal | all | 1.1 | an event is one that the machine has
dma.semaphore-range | fatal | all | 1.1 | a semaphore is one that the machine has
dma.remote-machine | fatal | inf1, trn1 | NEFFDOC | remote_semaphores are for Trn2 and later
dma.remote-lnc | fatal | all | NEFFDOC | remote_semaphores need lnc_size 2
dma.trigger-amounts | error | all | NEFFDOC | entries of one id are as many on every queue of a function
dma.field | warning | all | NEFFDOC | a DMA entry has no unknown keys
desc.op | fatal | all | NEFFDOC | op is copy, cast, add, fma, min, max or transpose
desc.op-inf1 | fatal | inf1 | NEFFDOC | op is copy on Inf1
desc.dtype | fatal | all | NEFFDOC | dtypes are those of the DMA engines
desc.dtype-inf1 | fatal | inf1 | NEFFDOC | dtypes are not for Inf1
desc.variable | fatal | all | NEFFDOC | variables are declared in def.json
desc.rank | fatal | all | NEFFDOC | steps and sizes have equal length, 1 to 4
desc.sizes | fatal | all | inferred | sizes are at least 1
desc.bounds | fatal | all | inferred | every address lies inside the variable
desc.from-arr | fatal | all | NEFFDOC | from_arr is for fma, add, min and max
desc.from-arr-inf1 | fatal | inf1 | NEFFDOC | from_arr is not for Inf1
desc.sources | fatal | all | NEFFDOC | from_arr has 1 to 16 sources
desc.scale | fatal | all | NEFFDOC | scale is only for fma
desc.scale-dtype | fatal | all | NEFFDOC | scale_dtype is float32, and only for fma
desc.constant | fatal | all | NEFFDOC | constant is only for min and max
desc.constant-dtype | fatal | all | NEFFDOC | float32, int32 or uint32, only for min and max
desc.constant-missing | fatal | all | NEFFDOC | constant_dtype comes with a constant
desc.constant-value | fatal | all | NEFFDOC | the constant is a value of its dtype
desc.constant-ignored | warning | all | NEFFDOC | a constant comes with constant_dtype
desc.transpose-op | fatal | all | NEFFDOC | transpose fields are only for transpose
desc.transpose-shape | fatal | all | NEFFDOC | transpose_shape has 4 positive entries
desc.transpose-size | fatal | all | inferred | shape and element size of a transpose give the bytes moved
desc.transpose-missing | error | all | inferred | a transpose says its shape and element size
desc.tiling | fatal | all | NEFFDOC | num_tiling_dimensions is 1 to 4
desc.element | fatal | all | inferred | the innermost size is a whole number of elements
desc.count | fatal | all | inferred | both sides describe the same number of elements
desc.field | warning | all | NEFFDOC | a descriptor has no unknown keys
debug.records | warning | all | measured | a debug file can be read
debug.slots | warning | all | measured | one assembly record per slot
debug.edges | warning | all | measured | parents and dependencies are known records
""")


class Report:
    """Collects findings in the order in which they are made, at most FINDINGS_PER_RULE per rule."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._counts: Counter[str] = Counter()

    def add(self, rule: str, where: str, text: str) -> None:
        """Add a broken rule."""
        known = RULES[rule]
        self._counts[rule] += 1
        if self._counts[rule] <= FINDINGS_PER_RULE:
            self._findings.append(
                Finding(rule, known.severity, one_line(where), one_line(text), known.is_fatal)
            )

    def findings(self) -> tuple[Finding, ...]:
        """Return errors first, then warnings; for a rule broken too often,
        the number of findings left out."""
        found = list(self._findings)
        for rule, count in self._counts.items():
            if count > FINDINGS_PER_RULE:
                known = RULES[rule]
                text = f"{count - FINDINGS_PER_RULE} more of this kind"
                found.append(Finding(rule, known.severity, "...", text, known.is_fatal))
        return tuple(sorted(found, key=lambda each: (each.severity != "error", not each.is_fatal)))


def shown(value: object) -> str:
    """Return a value of a file as text for a message, on one line and of limited length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def extra_keys(extra: object) -> list[str]:
    """Return the unknown keys, without those that npuviz itself adds."""
    keys = extra.keys() if isinstance(extra, dict) else ()
    return sorted(key for key in keys if not key.startswith("npuviz"))
