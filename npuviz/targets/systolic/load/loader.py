"""From one of ONNXim's list files to a compiled program in true mode."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from npuviz.base.errors import TargetError
from npuviz.base.progress import Progress
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.workloads import ModelEntry, read_model_list
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.targets.systolic.compiler.compile import LaunchPlan, compile_true, scheduled
from npuviz.targets.systolic.compiler.compiled import Compiled, RequestPlan
from npuviz.targets.systolic.compiler.merging import merge_graphs
from npuviz.targets.systolic.compiler.parity.compile import arrival_tick, check_partition
from npuviz.targets.systolic.load.list_check import check_entries, refuse_dimensions
from npuviz.targets.systolic.spec import SystolicSpec


def load_true_list(
    path: Path, spec: SystolicSpec, dimensions: Mapping[str, int], progress: Progress, *, dram: int = 0
) -> Compiled:
    """Read and compile the models of a list file, each at its request time.

    dimensions  values of symbolic dimensions, from the command line
    """
    entries, home = read_model_list(path), OnnximHome.of_list(path)
    check_entries(path, entries, home)
    if home.is_language_model(entries[0].name):
        refuse_dimensions(dimensions)
        from npuviz.targets.systolic.load.language import load_language

        return load_language(entries[0], home, spec, progress, dram=dram)
    named: list[tuple[str, Graph]] = []
    for entry in entries:
        check_partition(spec, entry.name, entry.partition_id)
        file = home.model(entry.name)
        graph = read_model(file, {**entry.dimensions, **dimensions}, optimize=True, progress=progress)
        named.append((entry.name, graph))
    if any(graph.opsets != named[0][1].opsets for _, graph in named):
        raise TargetError(
            f"{path}: models of one list must use one version of the operator set, these use "
            + ", ".join(sorted({f"{name}: {graph.opsets.get('', 0)}" for name, graph in named}))
        )
    return _compile_together(entries, named, spec, progress, dram)


def _compile_together(
    entries: Sequence[ModelEntry],
    named: Sequence[tuple[str, Graph]],
    spec: SystolicSpec,
    progress: Progress,
    dram: int,
) -> Compiled:
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
