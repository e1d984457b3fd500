"""An .rknn container made by hand: one fp16 product in plans for one, two and three cores."""

import json
from dataclasses import replace

import numpy as np

from npuviz.formats.rk3588.regcmd.area import read_regcmd
from npuviz.formats.rk3588.regcmd.stream import Stream, Tail, amount_of
from npuviz.formats.rk3588.registers import Word
from npuviz.formats.rk3588.rknn.model import Relocation, Rknn, RknnGraph, RknnNode, RknnTensor
from npuviz.formats.rk3588.task_descriptors import Task
from tests.formats.rk3588.streams import convolution_task, pack_tasks, pooling_task, write_area
from tests.shared_data import shared_folder

DATA = shared_folder("rk3588")
NAMES = {0x1070: "input", 0x1110: "weight", 0x4020: "output", 0x6070: "sync", 0x701C: "sync"}
POOL = tuple(
    Word(target, value, offset)
    for target, offset, value in (
        (0x4001, 0x600C, 0),
        (0x4001, 0x6010, 0),
        (0x4001, 0x6014, 31),
        (0x4001, 0x6018, 0),
        (0x4001, 0x601C, 0),
        (0x4001, 0x6020, 31),
        (0x4001, 0x6024, 0x11),
        (0x4001, 0x6070, 0),
        (0x4001, 0x607C, 1 << 4),
        (0x8001, 0x701C, 0),
        (0x8001, 0x7024, 1 << 4),
        (0x8001, 0x7028, 1 << 4),
    )
)
"""A maximum over 1x1 of 32 channels, as vendor plans have it behind convolutions."""


def memory() -> dict[str, str]:
    """The public memory images of the product."""
    return json.loads((DATA / "matmul_4x36x16_memory.json").read_text())


def product_body() -> tuple[Word, ...]:
    """The public stream of the product, addresses 0 as files hold them."""
    (stream,) = read_regcmd(DATA / "regcmd" / "regcmd_fp16_4x64x16.txt").streams()
    return tuple(replace(word, value=0) if word.offset in NAMES else word for word in stream.words)


def streams() -> list[tuple[Stream, int]]:
    """(stream, core) of all plans: in the multi-core plans every core computes the same product."""
    found: list[tuple[Stream, int]] = []
    body, place = product_body(), 0
    for plan in range(3):
        for core in range(plan + 1):
            after = place + 112 * 8
            tail = Tail(0x0D, after, amount_of(len(POOL)), plan) if plan else Tail(0x0D)
            found.append((Stream(body, tail, place), core))
            place = after
            if plan:
                found.append((Stream(POOL, Tail(0x60), place), core))
                place += len(found[-1][0].packed()) * 8
    return found


def container(**changes: object) -> Rknn:
    """The model; changes go to its graph."""
    tasks: list[Task] = []
    relocations: list[Relocation] = []
    for stream, core in streams():
        make = pooling_task if stream.tail.enables == 0x60 else convolution_task
        tasks.append(replace(make(stream, op_index=1), address=0, offset=stream.address))
        relocations += [
            Relocation(NAMES[word.offset], 0, stream.address // 8 + index, core)
            for index, word in enumerate(stream.words)
            if word.offset in NAMES
        ]
    graph = RknnGraph(
        tensors=(
            RknnTensor(""),
            RknnTensor("input", 10, 1, (1, 36, 4, 1), (1, 5, 4, 1, 8), 512, 0),
            RknnTensor("weight", 10, 4, (16, 36, 1, 1), (1, 2, 1, 1, 16, 32), 2048, 0, 1),
            RknnTensor("output", 6, 2, (1, 16, 4, 1), (1, 4, 4, 1, 4), 256, 512),
            RknnTensor("sync", 3, 4, (1, 32, 1, 1), (1, 2, 1, 1, 16), 1024, 0, 2),
            RknnTensor("regcmd", 13, 9, blob=3),
            RknnTensor("task", 13, 10, blob=4),
            RknnTensor("shape", 7, 5, (2,), (2,), 16, 0, 5),
            RknnTensor("flat", 6, 3, (4, 16), (4, 16), 256, 1024),
        ),
        nodes=(
            RknnNode("InputOperator", "in", (), (1,), (0,) * 6),
            RknnNode("Conv", "conv", (1, 2, -1), (3,), (1, 2, 2, 2, 2, 2), b"\x05\0\0\0\0"),
            RknnNode("Reshape", "flat", (3, 7), (8,), (0,) * 6),
            RknnNode("OutputOperator", "out", (8,), (), (0,) * 6),
        ),
        inputs=(1,),
        outputs=(8,),
        relocations=tuple(relocations),
        plan_starts=(0, 1, 5),
    )
    area = write_area(tuple(stream for stream, _ in streams()))
    shape = np.array([4, 16], np.int64).tobytes()
    weights = bytes.fromhex(memory()["weight_fp16_hex"])
    blobs = (b"", weights, bytes(1024), area.to_bytes(), pack_tasks(tasks), shape)
    return Rknn((replace(graph, **changes),), blobs, platform="rk3588", compiler="2.3.2", json={"tensors": 2})
