"""Compiles one of ONNXim's list files: models with arrival times, or one language model."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from npuviz.base.errors import FormatError, TargetError, UsageError
from npuviz.base.names import is_named_file
from npuviz.base.progress import Progress
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.mapping import LayerMapping, Loops, read_mapping
from npuviz.formats.onnxim.workloads import ModelEntry, read_language_model, read_model_list, read_trace
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.targets.systolic.compiler.compile import LaunchPlan, compile_true, scheduled
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.language.compile import TrueLanguageCompiler
from npuviz.targets.systolic.compiler.merging import merge_graphs
from npuviz.targets.systolic.compiler.parity.compile import (
    ModelRequest,
    ParityModel,
    arrival_tick,
    check_partition,
    compile_parity_list,
)
from npuviz.targets.systolic.compiler.parity.language import check_language_entry, compile_language
from npuviz.targets.systolic.load.form import form_for
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import RequestPlan

DEFAULT_TRACE = "input.csv"


def compile_list(
    path: Path, spec: SystolicSpec, dimensions: Mapping[str, int], progress: Progress, dram: int
) -> Compiled:
    """Read and compile what a list file names.

    dimensions  values of symbolic dimensions, from the command line
    dram        memory id of the DRAM in the machine description
    """
    entries, home = read_model_list(path), OnnximHome.of_list(path)
    _check_entries(path, entries, home)
    if home.is_language_model(entries[0].name):
        _refuse_dimensions(dimensions)
        return _compile_language(entries[0], home, spec, progress, dram)
    if spec.mode == "parity":
        models = [_read_entry(path, home, entry, dimensions, progress) for entry in entries]
        return compile_parity_list(models, spec, dram=dram, progress=progress)
    named: list[tuple[str, Graph]] = []
    for entry in entries:
        check_partition(spec, entry.name, entry.partition_id)
        file = home.model(entry.name)
        graph = read_model(file, {**entry.dimensions, **dimensions}, form=form_for(spec), progress=progress)
        named.append((entry.name, graph))
    if any(graph.opsets != named[0][1].opsets for _, graph in named):
        raise TargetError(
            f"{path}: models of one list must use one version of the operator set, these use "
            + ", ".join(sorted({f"{name}: {graph.opsets.get('', 0)}" for name, graph in named}))
        )
    return _compile_together(entries, named, spec, progress, dram)


def _check_entries(path: Path, entries: Sequence[ModelEntry], home: OnnximHome) -> None:
    """Raise for lists that cannot run: a missing model file, or a language model beside other models."""
    for entry in entries:
        if not is_named_file(home.model(entry.name)) and not home.is_language_model(entry.name):
            raise FormatError(
                path,
                field=f"model {entry.name!r}",
                expected=f"the file {home.model(entry.name)}",
                found="none",
            )
    if len(entries) > 1 and any(home.is_language_model(entry.name) for entry in entries):
        raise TargetError(
            f"{path}: a language model runs alone, this list has {len(entries)} models; "
            "give each its own list file"
        )


def _refuse_dimensions(dimensions: Mapping[str, int]) -> None:
    for name in dimensions:
        raise UsageError(
            f"--set {name[:60]}: no setting has this name, and a language model has no dimensions to set; "
            "its sizes are in its JSON file"
        )


def _compile_language(
    entry: ModelEntry, home: OnnximHome, spec: SystolicSpec, progress: Progress, dram: int
) -> Compiled:
    check_language_entry(entry)
    model = read_language_model(home.language_model(entry.name))
    trace = read_trace(home.trace(entry.trace_file or DEFAULT_TRACE))
    if spec.mode == "parity":
        return compile_language(model, spec, entry, trace, dram=dram, progress=progress)
    return TrueLanguageCompiler(model, spec, entry, trace).compile(dram, progress)


def _compile_together(
    entries: Sequence[ModelEntry],
    named: Sequence[tuple[str, Graph]],
    spec: SystolicSpec,
    progress: Progress,
    dram: int,
) -> Compiled:
    """Compile the models as one graph (true mode), each as a launch at its request time."""
    graph, _ = merge_graphs(named, has_source=True)
    first = 0
    found: list[tuple[int, LaunchPlan, str]] = []
    for entry, (name, part) in zip(entries, named, strict=True):
        nodes = [graph.nodes[first + node.id] for node in scheduled(part)]
        first += len(part.nodes)
        arrival = arrival_tick(entry.request_time_ps, spec.core_period_ps)
        found.append((arrival, LaunchPlan(nodes, arrival, partition=entry.partition_id), name))
    found.sort(key=lambda item: item[0])
    requests = [RequestPlan(name, arrival, (number,)) for number, (arrival, _, name) in enumerate(found)]
    return compile_true(graph, spec, dram, progress, [launch for _, launch, _ in found], requests)


def _read_entry(
    path: Path, home: OnnximHome, entry: ModelEntry, dimensions: Mapping[str, int], progress: Progress
) -> ParityModel:
    total = entry.dimensions.get("total_seq_len")
    if total is not None and total + 1 != entry.output_seq_len:
        raise TargetError(
            f"{path}: model {entry.name!r} would be restarted for every token (total_seq_len {total}, "
            f"output_seq_len {entry.output_seq_len}), which is not modelled yet; "
            f"set output_seq_len to {total + 1}"
        )
    file = home.model(entry.name)
    request = ModelRequest(entry.request_time_ps, entry.target_core, entry.nr_atten, entry.partition_id)
    return read_parity_model(file, entry.name, {**entry.dimensions, **dimensions}, request, progress)


def read_parity_model(
    file: Path, name: str, dimensions: Mapping[str, int], request: ModelRequest, progress: Progress
) -> ParityModel:
    """Read an ONNX model as it is in its file, with the mapping file beside it, if there is one."""
    graph = read_model(file, dimensions, optimize=False, progress=progress)
    beside = file.with_suffix(".mapping")
    mapping: Mapping[Loops, LayerMapping] = read_mapping(beside) if is_named_file(beside) else {}
    return ParityModel(name, graph, mapping, request)
