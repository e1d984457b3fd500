"""Broken RK3588 programs: compiled ones with a task, a job, a host call or an address changed."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from npuviz.sim.machine import Machine
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.machine.payload import Payload
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.accesses import access_rows
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.view.listing import RknnListing
from tests.seeded.seed import Seed, sample

MACHINE = "rk3588"
MODELS = ("tiny_cnn", "tiny_cnn_int8", "tiny_transformer")
ORDER = frozenset({"early-read", "early-overwrite", "unordered-writes", "unwritten"})
NOWHERE = 0xF0000000
Change = Callable[[Tables], Tables]


def _base(model: str) -> RknnMachine:
    machine = sample(MACHINE, model)
    assert isinstance(machine, RknnMachine)
    return machine


def tables_of(model: str) -> Tables:
    """The right program's tables."""
    payload = _base(model).program.payload
    assert isinstance(payload, Payload)
    return payload.tables


def _with(model: str, change: Change) -> Callable[[], Machine]:
    def make() -> Machine:
        base = _base(model)
        spec: RknnSpec = base._engine.spec
        payload = base.program.payload
        assert isinstance(payload, Payload)
        tables = change(payload.tables)
        # The samples are compiled for one core; a task on another needs it.
        spec = replace(spec, cores=tables.num_cores)
        listing = RknnListing(tables, spec, base.program.graph)
        program = replace(base.program, payload=replace(payload, tables=tables), listing=listing)
        return RknnMachine(spec, program)

    return make


def _retasked(tables: Tables, tasks: list[Task]) -> Tables:
    """Tables with other tasks, sorted and numbered."""
    ordered = sorted(tasks, key=lambda task: (task.job, task.core))
    return replace(tables, tasks=tuple(replace(task, index=n) for n, task in enumerate(ordered)))


def consumers(model: str) -> list[tuple[int, int]]:
    """(task, the next task that reads what it writes), by the ranges that tasks touch."""
    tables, spec = tables_of(model), _base(model)._engine.spec
    rows = [access_rows(task, cost_of(task, spec)) for task in tables.tasks]
    found: list[tuple[int, int]] = []
    for source, mine in enumerate(rows):
        written = [(low, high) for is_write, low, high in mine if is_write]
        for sink in range(source + 1, len(rows)):
            read = [(low, high) for is_write, low, high in rows[sink] if not is_write]
            if any(low < end and start < high for low, high in written for start, end in read):
                found.append((source, sink))
                break
    return found


def seeds() -> Iterator[Seed]:
    """All of them."""
    for model in MODELS:
        pairs = consumers(model)
        for source, sink in pairs[:: max(1, len(pairs) - 1)]:
            yield _same_job(model, source, sink)
            yield _swapped(model, source, sink)
            yield _left_out(model, source)
            yield _moved(model, source)
        yield from _on_another(model)
        yield from _hosts(model, tables_of(model))


def _same_job(model: str, source: int, sink: int) -> Seed:
    """The reader runs in the writer's job on another core: nothing makes it wait."""

    def change(tables: Tables) -> Tables:
        tasks = list(tables.tasks)
        core = (tasks[source].core + 1) % 3
        tasks[sink] = replace(tasks[sink], job=tasks[source].job, core=core)
        return _retasked(replace(tables, num_cores=3), tasks)

    return Seed(f"{model}: task {sink} in the job of {source}", MACHINE, "a job boundary removed", ORDER,
                _with(model, change))  # fmt: skip


def _swapped(model: str, source: int, sink: int) -> Seed:
    def change(tables: Tables) -> Tables:
        tasks = list(tables.tasks)
        a, b = tasks[source], tasks[sink]
        tasks[source] = replace(b, job=a.job, core=a.core)
        tasks[sink] = replace(a, job=b.job, core=b.core)
        return _retasked(tables, tasks)

    return Seed(f"{model}: tasks {source} and {sink} change places", MACHINE, "a wrong order", ORDER,
                _with(model, change))  # fmt: skip


def _left_out(model: str, source: int) -> Seed:
    """The writer writes nothing: its reader finds what was there before."""

    def change(tables: Tables) -> Tables:
        tasks = list(tables.tasks)
        work = tasks[source].work
        output = replace(work.output, to_memory=False) if work.output is not None else None
        tasks[source] = replace(tasks[source], work=replace(work, output=output, pooling=None))
        return _retasked(tables, tasks)

    return Seed(f"{model}: task {source} writes nothing", MACHINE, "an uninitialised read",
                ORDER | {"fault", "hang"}, _with(model, change))  # fmt: skip


def _moved(model: str, source: int) -> Seed:
    def change(tables: Tables) -> Tables:
        tasks = list(tables.tasks)
        work = tasks[source].work
        output = replace(work.output, address=NOWHERE) if work.output is not None else None
        pooling = replace(work.pooling, address=NOWHERE) if work.pooling is not None else None
        tasks[source] = replace(tasks[source], work=replace(work, output=output, pooling=pooling))
        return _retasked(tables, tasks)

    return Seed(f"{model}: task {source} writes where nothing is", MACHINE, "out of bounds",
                frozenset({"fault", "out-of-bounds"}), _with(model, change))  # fmt: skip


def _on_another(model: str) -> Iterator[Seed]:
    """A task between a writer and its reader, of another operator, writes on what lies there."""
    tables = tables_of(model)
    for source, sink in {sink: (source, sink) for source, sink in consumers(model)}.values():
        output = tables.tasks[source].work.output
        nodes = (tables.tasks[source].node, tables.tasks[sink].node)
        between = [n for n in range(source + 1, sink) if tables.tasks[n].node not in nodes]
        other = tables.tasks[between[0]].work.output if between else None
        if output is None or other is None or not output.to_memory:
            continue

        def change(tables: Tables, number: int = between[0], address: int = output.address) -> Tables:
            tasks = list(tables.tasks)
            work = tasks[number].work
            assert work.output is not None
            output = replace(work.output, address=address)
            tasks[number] = replace(tasks[number], work=replace(work, output=output))
            return _retasked(tables, tasks)

        yield Seed(f"{model}: task {between[0]} writes on what {sink} reads", MACHINE,
                   "a living tensor overwritten", ORDER | {"overwritten"}, _with(model, change))  # fmt: skip


def _hosts(model: str, tables: Tables) -> Iterator[Seed]:
    """The conversion of an input comes after its reader; the last host call comes before everything."""
    writers = [n for n, call in enumerate(tables.hosts) if call.writes and call.job == 0]
    if writers:

        def late(tables: Tables, number: int = writers[0]) -> Tables:
            hosts = list(tables.hosts)
            moved = replace(hosts.pop(number), job=tables.num_jobs)
            return replace(tables, hosts=(*hosts, moved))

        yield Seed(f"{model}: host call {writers[0]} at the end", MACHINE, "a host call too late",
                   ORDER | {"fault"}, _with(model, late))  # fmt: skip

    def early(tables: Tables) -> Tables:
        hosts = list(tables.hosts)
        return replace(tables, hosts=(replace(hosts.pop(), job=0), *hosts))

    if tables.hosts[-1].job > 0:
        yield Seed(f"{model}: the last host call first", MACHINE, "a host call too early",
                   ORDER | {"fault", "host-operator"}, _with(model, early))  # fmt: skip
