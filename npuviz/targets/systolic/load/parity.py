"""From files to a compiled parity program: an ONNX model, or one of ONNXim's list files."""

from collections.abc import Mapping
from pathlib import Path

from npuviz.base.errors import TargetError
from npuviz.base.progress import Progress
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.mapping import LayerMapping, Loops, read_mapping
from npuviz.formats.onnxim.workloads import (
    ModelEntry,
    read_language_model,
    read_model_list,
    read_trace,
)
from npuviz.onnx.reader import read_model
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.parity.compile import ModelRequest, ParityModel, compile_parity_list
from npuviz.targets.systolic.compiler.parity.language import compile_language
from npuviz.targets.systolic.load.list_check import check_entries, refuse_dimensions
from npuviz.targets.systolic.spec import SystolicSpec

DEFAULT_TRACE = "input.csv"


def load_parity(
    path: Path, spec: SystolicSpec, dimensions: Mapping[str, int], progress: Progress, *, dram: int = 0
) -> Compiled:
    """Read and compile an ONNX model (`<model>.mapping` beside it is used) or a list file (.json).

    dimensions  values of symbolic dimensions, from the command line
    dram        memory id of the DRAM in the machine description
    """
    if path.suffix.lower() != ".json":
        model = _read(path, path.stem, dimensions, ModelRequest(), progress)
        return compile_parity_list([model], spec, dram=dram, progress=progress)
    entries, home = read_model_list(path), OnnximHome.of_list(path)
    check_entries(path, entries, home)
    if home.is_language_model(entries[0].name):
        refuse_dimensions(dimensions)
        entry = entries[0]
        trace = read_trace(home.trace(entry.trace_file or DEFAULT_TRACE))
        model = read_language_model(home.language_model(entry.name))
        return compile_language(model, spec, entry, trace, dram=dram, progress=progress)
    models = [_read_entry(path, home, entry, dimensions, progress) for entry in entries]
    return compile_parity_list(models, spec, dram=dram, progress=progress)


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
    return _read(file, entry.name, {**entry.dimensions, **dimensions}, request, progress)


def _read(
    file: Path, name: str, dimensions: Mapping[str, int], request: ModelRequest, progress: Progress
) -> ParityModel:
    graph = read_model(file, dimensions, optimize=False, progress=progress)
    beside = file.with_suffix(".mapping")
    mapping: Mapping[Loops, LayerMapping] = read_mapping(beside) if beside.is_file() else {}
    return ParityModel(name, graph, mapping, request)
