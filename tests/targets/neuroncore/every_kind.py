"""A program with one of everything that a NEFF can hold."""

import dataclasses

import ml_dtypes
import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.program.program import Note
from npuviz.program.tensor import Tensor
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.isa import NUM_ENGINES, Engine
from npuviz.targets.neuroncore.spec import make_spec
from npuviz.targets.neuroncore.tables import (
    ALLOCATION_DTYPE,
    SBUF,
    Access,
    Descriptor,
    Piece,
    QueueSet,
    Tables,
    Transfer,
    Variable,
)
from tests.targets.neuroncore.text.assembler import assemble

TEXTS = (
    ("PE nop wait:S9>=3 wait:E1==1\nPE end",),
    (
        "Activation table_load id=3",
        "Activation reg_move.r1 imm=#5",
        "Activation branch.r1 imm=#1 cmd=lt id=2",
    ),
    (
        "Pool dma_copy src1=i32:sbuf[0:8,0x0,1x1] imm=4 id=7 +software +gather_source",
        '    transfer queue=0 trigger="software DGE" semaphore=20',
        "    copy float32:sb[0x40,4x1,8x229376] <- float32:v0[0x0,4x1,8x4]",
        "Pool dma_trigger id=8",
    ),
    ("DVE memset f32:sbuf[0:128,0x100,4x1] imm=2.5 signal:S3++ signal@read:E1!",),
    ("SP dma_trigger id=0 signal:E4~", "SP dma_trigger id=0", "SP core_barrier"),
)


def everything() -> Compiled:
    """Two cores, static and dynamic transfers, computing descriptors, a host call, all kinds of data."""
    programs = [assemble("\n".join(lines))[0] for lines in TEXTS]
    empty = [np.zeros(0, programs[0].dtype)] * NUM_ENGINES
    host, _ = assemble("Host host_call id=1 signal:S9+=4")
    parts = [*programs, *empty[:4], assemble("SP dma_trigger id=0")[0], host]
    ends = np.cumsum([len(part) for part in parts])
    code = np.concatenate(parts)
    _, copies = assemble("\n".join(TEXTS[2]))
    bytes4 = Access(0, 0, (1,), (4,), "bool")
    static = Descriptor("copy", Access(SBUF, 8, (1,), (4,), "bool"), (bytes4,))
    halves = Access(2, 2, (1,), (2,), "bfloat16")
    scaled = Descriptor("fma", Access(1, 0, (1,), (4,), "float32"), (halves, halves), (1.5, -2.0))
    least = Descriptor(
        "min", Access(1, 4, (1,), (4,), "float32"), (Access(1, 0, (1,), (4,), "float32"),), (), 7.0
    )
    turned = Descriptor(
        "transpose", Access(1, 0, (1,), (8,)), (Access(0, 0, (1,), (8,)),), (), None, (2, 2, 1, 1), 2
    )
    transfers = (
        Transfer(8, 0, 1, (scaled, least, turned), "static", 21, 5, first_queue=True),
        dataclasses.replace(copies[0], id=7, queue=1),
        Transfer(0, 1, 2, (static,), "static", 3, remote_semaphores=(6, 7)),
        Transfer(0, 0, 0, (static, static), "static", 3),
    )
    queue_sets = (
        QueueSet(0, "qSP", 0, Engine.SP, 1, 3),
        QueueSet(1, "qPool", 0, Engine.POOL, 16, 20),
        QueueSet(2, "qSP", 1, Engine.SP, 3, -1),
    )
    text = np.array(["a", "bc"], object)
    variables = (
        Variable(0, "x", "input", 0, 32, "float32", (8,), None, 0),
        Variable(1, "y", "output", 64, 8, "float32", (2,), None, 1),
        Variable(2, "w", "constant", 128, 6, "bfloat16", (3,), np.arange(3).astype(ml_dtypes.bfloat16), 2),
        Variable(3, "w", "constant", 192, 4096, "float32", (1024,), np.broadcast_to(np.float32(2), (1024,))),
        Variable(4, "text", "constant", 4352, 16, "string", (2,), text, 3),
        Variable(5, "", "scratch", 4416, 0, "int64", (0,)),
    )
    attributes = {
        "axis": -1,
        "scale": 0.5,
        "limit": float("inf"),
        "mode": "x",
        "body": b"\0\xff",
        "list": [1, 2.0, "z"],
        "value": np.arange(4, dtype=np.int64).reshape(2, 2),
        "half": np.array([1.5], np.float16),
        "none": None,
    }
    graph = Graph(
        "one of each",
        (Node(0, "n0", "Add", "", (0, -1), (1,)), Node(1, "n1", "Odd", "ai.odd", (1, 2), (1,), attributes)),
        (
            Tensor(0, "x", (8,), "float32", "input"),
            Tensor(1, "y", (2,), "float32", "output", 1),
            Tensor(2, "w", (3,), "bfloat16", "weight"),
            Tensor(3, "text", (2,), "string", "weight"),
        ),
        (0,),
        (1,),
        {2: variables[2].data, 3: text},  # pyright: ignore[reportArgumentType]
        {"": 20},
        b"a model",
        ("something was assumed",),
    )
    nodes = np.arange(len(code), dtype=np.int32) % 3 - 1
    transfer_of = np.full(len(code), -1, np.int32)
    for index in range(len(code)):
        if code["opcode"][index] in (8, 9):
            core = 0 if index < ends[4] else 1
            keys = [(each.core, each.id) for each in transfers]
            transfer_of[index] = keys.index((core, int(code["id"][index])))
    return Compiled(
        graph,
        Tables(
            num_cores=2,
            instructions=code,
            sequencers=np.stack([ends - [len(part) for part in parts], ends], axis=1).astype(np.int64),
            nodes=nodes,
            tiles=nodes[::-1].copy(),
            transfer_of=transfer_of,
            transfers=transfers,
            queue_sets=queue_sets,
            variables=variables,
            pieces=(Piece(1, 3, 0, 4, 2, (0, 0, 0, 1)),),
            allocations=np.array([(1, 2, 64, 128, 32, 1, 0, 5)], ALLOCATION_DTYPE),
            outputs={1: 1},
            semaphore_uses={(0, 3): "DVE", (1, 3): "qSP"},
        ),
        notes=(Note("warning", "host-operator", "n1 runs on the Host", 1),),
        placement={0: "Core", 1: "Host"},
    )


LNC2, _ = make_spec("trn2", None, {"lnc": "2"})
