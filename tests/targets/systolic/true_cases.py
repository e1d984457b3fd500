"""Small models for the tests of true mode, and what must hold for every compiled program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.program.graph import Graph
from npuviz.targets.systolic.compiler.compile import compile_true
from npuviz.targets.systolic.compiler.compiled import Compiled as Lowered
from npuviz.targets.systolic.compiler.template import Rows
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from npuviz.targets.systolic.values.engine import ValueEngine
from npuviz.targets.systolic.values.plan import ValuePlan

_VECTORS = range(tk.OP_ADD, tk.OP_IM2COL + 1)
_GEMMS = (tk.OP_GEMM, tk.OP_GEMM_PRELOAD)


@dataclass(frozen=True, repr=False)
class Compiled:
    """A model, the chip, and what the compiler made of them."""

    graph: Graph
    spec: SystolicSpec
    compiled: Lowered

    @property
    def plan(self) -> ValuePlan:
        plan = self.compiled.tables.values
        assert isinstance(plan, ValuePlan)
        return plan

    def engine(self, seed: int = 0) -> ValueEngine:
        return ValueEngine(self.compiled.tables, self.graph, self.spec, draw_inputs(self.graph, {}, seed))


def chip(side: int = 16, cores: int = 2, spad: int = 64, acc: int = 32, **changes: object) -> SystolicSpec:
    """A small chip: array side, cores, KiB of scratchpad and accumulator; further keys of the spec."""
    settings = {
        "core_width": side,
        "core_height": side,
        "cores": cores,
        "spad_size": spad,
        "accum_spad_size": acc,
        "vector_process_bit": 512,
        **changes,
    }
    return make_spec("", None, {name: str(value) for name, value in settings.items()})[0]


def compile_model(path: Path, spec: SystolicSpec, optimize: bool = False) -> Compiled:
    """Read a model and compile it in true mode."""
    graph = read_model(path, optimize=optimize)
    return Compiled(graph, spec, compile_true(graph, spec))


def weights(name: str, *shape: int, seed: int = 0, scale: float = 0.3) -> onnx.TensorProto:
    """A seeded random float32 initialiser."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape) * scale
    return numpy_helper.from_array(values.astype(np.float32), name)


def constant(
    name: str, values: float | Sequence[float] | np.ndarray, dtype: type = np.int64
) -> onnx.TensorProto:
    """An initialiser with given values."""
    return numpy_helper.from_array(np.array(values, dtype=dtype), name)


def save_model(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[Any]],
    outputs: Mapping[str, Sequence[Any]],
    initializers: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
) -> Path:
    """Write a float32 model of the given nodes."""
    graph = helper.make_graph(
        list(nodes),
        "model",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in outputs.items()],
        list(initializers),
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 10
    onnx.save(model, path)
    return path


def tile_rows(case: Compiled, tile: int) -> np.ndarray:
    """CODE rows of a tile."""
    row = case.compiled.tables.tiles[tile]
    return case.compiled.tables.code[row[tk.TILE.code] : row[tk.TILE.code] + row[tk.TILE.count]]


def bytes_moved(case: Compiled, tile: int, code: np.ndarray) -> np.ndarray:
    """Byte addresses of every byte a MOVIN or MOVOUT names."""
    base = int(case.compiled.tables.tiles[tile, tk.TILE.base + code[tk.CODE.base]]) + int(
        code[tk.CODE.offset]
    )
    rows = (
        base
        + np.arange(code[tk.CODE.n0])[:, None, None] * code[tk.CODE.s0]
        + np.arange(code[tk.CODE.n1])[None, :, None] * code[tk.CODE.s1]
        + np.arange(code[tk.CODE.len])[None, None, :]
    )
    return rows.reshape(-1)


def assert_sound(case: Compiled) -> None:
    """Check every tile against the rules of the machine; AssertionError names what broke."""
    tables = case.compiled.tables
    _assert_entries(case)
    extents = {a.tensor: (a.address, a.address + a.size_bytes) for a in case.compiled.memory_map.allocations}
    seen: set[tuple[int, int, int]] = set()
    for tile in range(len(tables.tiles)):
        row = tables.tiles[tile]
        _assert_ranges(case, tile, extents)
        key = int(row[tk.TILE.code]), int(row[tk.TILE.layer]), int(row[tk.TILE.accumulate])
        if not row[tk.TILE.skip] and key not in seen:
            seen.add(key)
            _assert_program(case, tile)
    _assert_groups(case)


def _assert_entries(case: Compiled) -> None:
    tables, spec = case.compiled.tables, case.spec
    for layer in tables.layers:
        first, spads, accs = (
            int(layer[w]) for w in (tk.LAYER.entry, tk.LAYER.spad_entries, tk.LAYER.acc_entries)
        )
        halves = (
            (tables.entries[first : first + spads], spec.spad_half_bytes()),
            (tables.entries[first + spads : first + spads + accs], spec.acc_half_bytes()),
        )
        for entries, half in halves:
            assert (entries.sum(axis=1) <= half).all(), "entries overflow the half"


def _assert_ranges(case: Compiled, tile: int, extents: dict[int, tuple[int, int]]) -> None:
    for code in tile_rows(case, tile):
        if code[tk.CODE.op] not in (tk.OP_MOVIN, tk.OP_MOVOUT):
            continue
        base = int(case.compiled.tables.tiles[tile, tk.TILE.base + code[tk.CODE.base]])
        first = base + int(code[tk.CODE.offset])
        last = first + int(
            (code[tk.CODE.n0] - 1) * code[tk.CODE.s0]
            + (code[tk.CODE.n1] - 1) * code[tk.CODE.s1]
            + code[tk.CODE.len]
        )
        low, high = extents[int(code[tk.CODE.tensor])]
        assert low <= first < last <= high, f"tile {tile} moves bytes outside tensor {code[tk.CODE.tensor]}"


def _assert_program(case: Compiled, tile: int) -> None:
    """No entry is loaded twice, every source exists, sizes agree with the entries, results are stored."""
    tables = case.compiled.tables
    layer = tables.layers[tables.tiles[tile, tk.TILE.layer]]
    entries = tables.entries[layer[tk.LAYER.entry] :]
    present: set[int] = set()
    request = case.spec.req_size
    accumulates = bool(tables.tiles[tile, tk.TILE.accumulate])
    for code in tile_rows(case, tile):
        opcode, target = int(code[tk.CODE.op]), int(code[tk.CODE.dst])
        place = target - 1 if target > 0 else int(layer[tk.LAYER.spad_entries]) - target - 1
        limit = int(entries[place, tk.ENTRY_ROOM.size])
        if opcode == tk.OP_MOVIN:
            assert target not in present, "an entry is loaded twice"
            assert 0 < code[tk.CODE.size] <= limit
            assert code[tk.CODE.size] == code[tk.CODE.n0] * code[tk.CODE.n1] * code[tk.CODE.len]
            base = int(tables.tiles[tile, tk.TILE.base + code[tk.CODE.base]])
            rows = Rows(
                0,
                int(code[tk.CODE.offset]),
                *(int(code[w]) for w in (tk.CODE.len, tk.CODE.n0, tk.CODE.s0, tk.CODE.n1, tk.CODE.s1)),
            )
            assert len(rows.addresses(base, request)) > 0
        elif opcode == tk.OP_MOVOUT:
            assert target in present, "a store of nothing"
        else:
            sources = [int(code[w]) for w in (tk.CODE.src0, tk.CODE.src1) if code[w]]
            assert sources
            assert all(source in present for source in sources), "a source that is never there"
            assert 0 < code[tk.CODE.size] <= limit
            if opcode in _VECTORS:
                assert code[tk.CODE.vbytes] > 0, "a vector instruction without work"
            else:
                assert opcode in _GEMMS
                assert 0 < code[tk.CODE.tile_k] <= case.spec.cores[0].core_height
                assert 0 < code[tk.CODE.tile_m] <= case.spec.cores[0].core_width
        present.add(target)
    assert present or accumulates
    for words in ([w for w in present if w > 0], [w for w in present if w < 0]):
        offset = int(layer[tk.LAYER.spad_entries])
        places = [word - 1 if word > 0 else offset - word - 1 for word in words]
        end = 0
        for address, size in sorted(entries[places].tolist()):
            assert address >= end, "entries of a tile overlap"
            end = address + size


def _assert_groups(case: Compiled) -> None:
    """Tiles of one accumulation go to one core and follow each other."""
    tiles = case.compiled.tables.tiles
    for tile in np.flatnonzero(tiles[:, tk.TILE.accumulate]):
        assert tiles[tile, tk.TILE.core] == tiles[tile - 1, tk.TILE.core]
        assert tiles[tile, tk.TILE.layer] == tiles[tile - 1, tk.TILE.layer]


def assert_everything_stored_once(case: Compiled) -> None:
    """Every byte of every tensor that cores compute is stored exactly once."""
    stored: dict[int, list[np.ndarray]] = {}
    tables = case.compiled.tables
    for tile in range(len(tables.tiles)):
        for code in tile_rows(case, tile):
            if code[tk.CODE.op] == tk.OP_MOVOUT:
                stored.setdefault(int(code[tk.CODE.tensor]), []).append(bytes_moved(case, tile, code))
    for layer in case.plan.layers:
        for root in () if layer.is_host else layer.outputs:
            storage = case.plan.storages[root]
            found = np.sort(np.concatenate(stored[root])) - storage.address
            assert np.array_equal(found, np.arange(storage.size_bytes)), case.graph.tensors[root].name
