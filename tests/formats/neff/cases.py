"""NEFF files built in code: small ones for the tests, and the place of the real one."""

import io
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from npuviz.formats.neff.debug_records import DebugFile, DebugRecord, Dependency, debug_bytes
from npuviz.formats.neff.file import make_neff, neff_from_members, neff_to_bytes
from npuviz.formats.neff.graph import GraphTensor
from npuviz.formats.neff.header import header_bytes
from npuviz.formats.neff.model import (
    Access,
    Descriptor,
    DmaEntry,
    EngineFile,
    Neff,
    NeffHeader,
    Payload,
    QueueSet,
    Subgraph,
    Variable,
)

REAL = Path(__file__).resolve().parents[4] / "shared" / "real" / "neff" / "matmul_small.neff"


def real_file() -> Path:
    """The vendor's NEFF beside the checkout; the test is skipped, with the reason, where it is absent."""
    if not REAL.is_file():
        pytest.skip(f"the real NEFF is not here: {REAL} (it embeds vendor tables and is not shipped)")
    return REAL


def npy(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def subgraph(name: str = "sg00") -> Subgraph:
    """All five engines, every kind of variable and DMA operation."""
    span = Access("x", 0, (1, 128), (64, 2))
    entries = (
        DmaEntry(
            1, Descriptor(Access("y", 64, (1, 64), (64, 2)), (span,)), queue="qIn", semaphore=9, event=3
        ),
        DmaEntry(
            2,
            Descriptor(
                Access("y", 0, (1,), (64,), "float32"),
                (Access("x", 0, (1,), (32,), "bfloat16"),),
                "cast",
                num_tiling_dimensions=1,
            ),
            instance_name="ring1",
            function_start="main",
            section_start_desc=True,
        ),
        DmaEntry(
            3,
            Descriptor(
                Access("y", 0, (1,), (16,), "float32"),
                tuple(Access("x", 16 * i, (1,), (16,), "float32", scale=float(i)) for i in range(3)),
                "fma",
                uses_from_arr=True,
                scale_dtype="float32",
            ),
            queue="qIn",
        ),
        DmaEntry(
            4,
            Descriptor(
                Access("y", 0, (1,), (16,), "int32"),
                (Access("x", 0, (1,), (16,), "int32"),),
                "max",
                uses_from_arr=True,
                constant=-7,
                constant_dtype="int32",
            ),
            queue="qIn",
        ),
        DmaEntry(
            5,
            Descriptor(
                Access("y", 0, (1,), (64,)),
                (Access("x", 0, (1,), (64,)),),
                "transpose",
                transpose_shape=(1, 1, 4, 8),
                transpose_element_size=2,
            ),
            queue="qIn",
        ),
    )
    variables = (
        Variable("SB", "state-buffer", 0),
        Variable("x", "input", 1, size=256),
        Variable("y", "output", 2, size=256, alignment=64),
        Variable("w", "file", 3, size=24, file_name="w.npy"),
        Variable("raw", "file", 4, size=5, file_name="raw.bin"),
        Variable("spill", "virtual", 5, size=512, backing_variable_off=128, alignment=64),
        Variable("p", "pointer", 6, size=8, referenced_var_id=1),
        Variable("t", "dge-table", 7, table=(1, 2)),
        Variable("tmp", "tmp-buf", 8, size=64, fabric_path="alt"),
    )
    backend = DebugFile(
        about="made by a test",
        parent_file="debug_info_penguin.dbg",
        level=1,
        sources=("/build/host/model.py",),
        records=(
            DebugRecord(7, "load", (3,), number=1, attributes={"kernel_file": "0", "kernel_line": "12"}),
            DebugRecord(
                300,
                "matmul",
                (3,),
                (Dependency(7, "flow"), Dependency(8, "accumulate")),
                (Dependency(7, "anti"),),
            ),
            DebugRecord(8, "other", depends_on=(Dependency(7, "output"),)),
        ),
    )
    slots = DebugFile(
        level=1,
        records=(
            *(DebugRecord() for _ in range(2)),
            *(DebugRecord(parents=(each,)) for each in (7, 300, 300, 8)),
        ),
    )
    engines = {
        "PE": EngineFile(
            "PE", bytes(6 * 64), entries, backend_debug=("pe.dbg",), assembly_debug=("pe_asm.dbg",)
        ),
        "Activation": EngineFile(
            "Activation",
            bytes(range(64)),
            extra={"activation_function_sets": ["exp"], "act_info": "act_info.json"},
        ),
        "Pool": EngineFile("Pool", b""),
        "DVE": EngineFile("DVE", bytes(128), extra={"dve_tables": [{"opcode_table": "table.bin"}]}),
        "SP": EngineFile("SP", bytes(64)),
    }
    sets = {
        "act_func_sets": [{"name": "exp", "bkt_bin": "table.bin", "ctrl_bin": "gone.bin", "act": {"exp": 4}}]
    }
    return Subgraph(
        name,
        {
            "qIn": QueueSet("qIn", "data", 2, "pe", semaphore_set=(8, 9)),
            "qRing": QueueSet("qRing", "data", 1, "pe", queue_instances=("ring0", "ring1"), semaphore=10),
            "qDyn": QueueSet("qDyn", "dynamic", 1, "pool", dynamic_dma={"SB_scratch_partition_size": 16384}),
        },
        {each.name: each for each in variables},
        engines,
        files={
            "w.npy": npy(np.arange(6, dtype=np.float32)),
            "raw.bin": b"abcde",
            "pe.dbg": debug_bytes(backend),
            "pe_asm.dbg": debug_bytes(slots),
            "table.bin": bytes(64),
            "act_info.json": orjson.dumps(sets),
        },
        tensor_map={"x": {"dtype": "float32", "kind": "input", "sim_shape": [4, 16], "is_const": False}},
        definition={"neff_features": ["one"], "runtime_event_count": 12},
    )


def small_neff(target: str = "trn2", cores: int = 1, lnc_size: int = 1) -> Neff:
    """A NEFF that breaks no rule on trn2."""
    penguin = DebugFile("operations", "", 0, (), (DebugRecord(3, "matmul of the model"),))
    return make_neff(
        [subgraph(f"sg{index:02d}") for index in range(cores)],
        {
            "npuviz/program.json": b'{"made": "by npuviz"}',
            "debug_info/debug_info_penguin.dbg_sg000000": debug_bytes(penguin),
        },
        name="small.neff",
        target=target,
        lnc_size=lnc_size,
        inputs=[GraphTensor("x", "float32", (4, 16))],
        outputs=[GraphTensor("y", "float32", (4, 16))],
    )


def with_members(neff: Neff, members: Mapping[str, Payload]) -> Neff:
    """The same NEFF with other members, parsed again."""
    return neff_from_members(members, neff.header, neff.name)


def with_json(neff: Neff, member: str, path: str, value: Any) -> dict[str, Payload]:
    """The members with one value of one JSON member replaced; `...` as value removes the key."""
    content = orjson.loads(neff.members[member])
    place: Any = content
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place[step]
    key: Any = int(last) if isinstance(place, list) else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return {**neff.members, member: orjson.dumps(content)}


def file_of_tar(tar: bytes, *, compressed: bool = True, data_size: int | None = None) -> bytes:
    """A NEFF file around any tar."""
    payload = zlib.compress(tar, 1, 31) if compressed else tar
    size = len(payload) if data_size is None else data_size
    return header_bytes(replace(NeffHeader(), data_size=size)) + payload


def small_bytes(compression: int = 1) -> bytes:
    return neff_to_bytes(small_neff(), compression)
