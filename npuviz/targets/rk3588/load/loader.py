"""Load files as a spec and a program: ONNX models, register command dumps and .rknn files."""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.formats.binary import read_head
from npuviz.formats.layer_times import beside, read_layer_times
from npuviz.formats.rk3588.rknn.reader import is_rknn
from npuviz.onnx.inputs import Given, draw_inputs
from npuviz.onnx.model_form import ModelForm
from npuviz.onnx.passes.contrib.expand import is_standard_attention
from npuviz.onnx.passes.contrib.volumes import WRITERS as VOLUMES
from npuviz.onnx.passes.contrib.volumes import spans_volume
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph, Node
from npuviz.program.program import Note, Program
from npuviz.sim.latencies import spec_text
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.compiler.compile import compile_graph
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.compiler.partition.costs import told, wanted_share
from npuviz.targets.rk3588.compiler.partition.share import ALIKE
from npuviz.targets.rk3588.load.dump import load_dump
from npuviz.targets.rk3588.load.rknn import load_rknn
from npuviz.targets.rk3588.machine.payload import Payload, fingerprint
from npuviz.targets.rk3588.spec import SETTINGS, RknnSpec, make_spec
from npuviz.targets.rk3588.view.listing import RknnListing

_WHOLE = frozenset(
    (
        *(
            "DynamicQuantizeLSTM",
            "GRU",
            "GroupQueryAttention",
            "LSTM",
            "MultiHeadAttention",
            "RNN",
            "RotaryEmbedding",
        ),
        *("ConvTranspose", "Pad"),
        # Measured on a small table: a call of the NPU for each product takes four times as long as the Host.
        *("Binarizer", "LinearClassifier", "LinearRegressor", "Normalizer"),
    )
)
"""Operators that stay whole for the NPU or the Host: the Host would run most of their parts, too."""
_MOST_WEIGHTS = 1 << 20
"""Most weights of a direction of an LSTM whose state is rounded to 8 bits. Measured: with 786,432 both sides
take as long; more come from DDR again at every step, in fp16, whereas the Host has them in its cache."""
_MOST_PADDING = 15
"""Most padding in a register: 4 bits. Ref: XML, CNA PAD_CON0. More padding lies in memory, where a Pad can
write it just as well."""
_MOST_STRIDE = 7
"""Largest stride in a register: 3 bits. Ref: XML, CNA CONV_CON3."""
_MOST_AT_A_PRICE = 1 << 23
"""The same where the Host should have little to do: the NPU takes 1.1 times as long for a million, and reads
whatever is larger from DDR, too."""


def _form(most_weights: int, *, is_flat: bool = False) -> ModelForm:
    """Return the form of models. is_flat  whether windows over three dimensions become those over two"""
    return ModelForm(
        whole=lambda node: (
            node.op_type in _WHOLE
            or is_standard_attention(node)
            or (node.op_type in VOLUMES and not (is_flat and spans_volume(node)))
        ),
        float_products=True,
        float_recurrence=most_weights,
        most_padding=_MOST_PADDING,
        most_stride=_MOST_STRIDE,
    )


def load(request: LoadRequest, progress: Progress) -> tuple[RknnSpec, Program]:
    """Read, and compile what is not compiled yet. Raises NpuvizError."""
    spec, notes, compiled = compile_request(request, progress)
    return spec, _program(request, spec, notes, compiled)


def compile_request(request: LoadRequest, progress: Progress) -> tuple[RknnSpec, tuple[Note, ...], Compiled]:
    """Return the spec, notes about it, and the tasks of the file."""
    names = SETTINGS.names
    spec, notes = make_spec(request.preset, request.config, names.own(request.settings))
    if request.path.suffix.lower() != ".onnx":
        names.refuse_others(request.settings)
        return spec, notes, load_file(request.path, spec)
    dimensions = names.dimensions(request.settings)

    def read(most_weights: int, *, is_flat: bool = False) -> Graph:
        with names.hints(dimensions):
            return read_model(
                request.path,
                dimensions,
                given=Given(request.inputs, request.seed),
                form=_form(most_weights, is_flat=is_flat),
                progress=progress,
            )

    most_weights = _MOST_AT_A_PRICE if spec.partition == "most-npu" else _MOST_WEIGHTS
    graph = read(most_weights)
    compiled = compile_graph(graph, spec, progress)
    if any(_is_volume(graph, node) for node in graph.nodes):
        flat = read(most_weights, is_flat=True)
        compiled, graph = _better((compiled, graph), (compile_graph(flat, spec, progress), flat), spec)
    found, share = compiled.weighed, wanted_share(graph, spec)
    if spec.partition != "spare-host" or found is None:
        return spec, notes, compiled
    if found.times.share > share and any(node.op_type == "DynamicQuantizeLSTM" for node in graph.nodes):
        tried = compile_graph(read(_MOST_AT_A_PRICE), spec, progress)
        other = tried.weighed
        most = spec.host_price * found.least.total
        # Floats for whole numbers deviate more: only where that reaches the share.
        if other is not None and other.times.total <= most and other.times.share <= share * (1 + ALIKE):
            compiled, found = tried, replace(other, least=found.least)
    told_notes = (told(found, share),) if found.times != found.least else ()
    return spec, (*notes, *told_notes), compiled


_Way = tuple[Compiled, Graph]


def _is_volume(graph: Graph, node: Node) -> bool:
    """Return whether an operator has windows over three dimensions."""
    return node.op_type in VOLUMES and len(graph.tensors[node.inputs[0]].shape) == 5


def _better(whole: _Way, flat: _Way, spec: RknnSpec) -> _Way:
    """Return which of two forms of a model is better: windows over three dimensions as they are, on the Host,
    or those over two with zeros, which may take longer by what the Host's time is worth."""
    times = [way[0].weighed for way in (whole, flat)]
    if spec.partition == "most-npu" or times[0] is None or times[1] is None:
        return flat
    price = spec.host_price if spec.partition == "spare-host" else 1.0
    return flat if times[1].times.total <= price * times[0].least.total else whole


def load_file(path: Path, spec: RknnSpec) -> Compiled:
    """Load a dump of register commands (binary or text) or an .rknn file. Raises FormatError."""
    if path.suffix.lower() == ".rknn" or is_rknn(read_head(path, 8)):
        return load_rknn(path, spec)
    return load_dump(path, spec)


def _program(request: LoadRequest, spec: RknnSpec, notes: tuple[Note, ...], compiled: Compiled) -> Program:
    graph = compiled.graph
    if request.inputs and not graph.inputs:
        raise UsageError("--input: the file does not name its inputs")
    table = beside(request.path)
    measured = read_layer_times(table) if table is not None else {}
    payload = Payload(compiled.tables, draw_inputs(graph, request.inputs, request.seed), measured)
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    return Program(
        target="rk3588",
        title=printable(request.path.name.split(".")[0]),
        graph=graph,
        listing=RknnListing(compiled.tables, spec, graph),
        memory_map=compiled.memory_map,
        notes=(*notes, *assumed, *compiled.notes),
        placement=compiled.placement,
        payload=payload,
        fingerprint=cache(partial(fingerprint, payload, graph, spec_text(spec))),
    )
