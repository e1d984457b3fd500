"""Configurations of ONNXim, run with a small matrix product."""

import json
from functools import cache
from pathlib import Path
from random import Random

from onnx import helper

from npuviz.debug.session import Session
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.target import TARGET
from npuviz.workbench.resources import sample_models_path
from tests.fuzz.driving import CYCLES, Impatient, warm_up
from tests.fuzz.mutations import NUMBERS, change_json
from tests.onnx.cases import random, save, value

SUFFIX = ".json"
SHARE = 150
_DATA = Path(__file__).parents[2] / "data" / "onnxim" / "configs"
_ENUMS = {
    "dram_type": ("simple", "ramulator", "ramulator2"),
    "icnt_type": ("simple", "booksim2"),
    "layout": ("NHWC", "NCHW"),
    "scheduler": ("simple", "partition_cpu", "time_multiplex", "spatial_split"),
}


def seeds() -> list[bytes]:
    """The shipped description and ONNXim's own, the texts that they name beside them."""
    names = [sample_models_path() / "systolic_2x16x16.json", *sorted(_DATA.glob("*_8x8_*.json"))]
    return [name.read_bytes() for name in names]


def mutate(data: bytes, rng: Random) -> bytes:
    """Mostly one or two numbers of the description."""
    try:
        tree = json.loads(data)
    except ValueError:
        return change_json(data, rng)
    if not isinstance(tree, dict) or rng.random() < 0.2:
        return change_json(data, rng)
    for _ in range(rng.randint(1, 3)):
        part = tree
        cores = tree.get("core_config")
        if isinstance(cores, dict) and cores and rng.random() < 0.4:
            part = cores[rng.choice(list(cores))]
        if not isinstance(part, dict) or not part:
            continue
        key = rng.choice(list(part))
        if isinstance(part[key], int):
            part[key] = rng.choice((rng.choice(NUMBERS), rng.randrange(1, 20), 1 << rng.randrange(12), 0, 3))
        elif key in _ENUMS:
            part[key] = rng.choice(_ENUMS[key])
    return json.dumps(tree).encode()


@cache
def _model() -> Path:
    path = Path("product.onnx").resolve()
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return save(path, nodes, [value("x", [9, 20])], [value("y", [9, 12])], {"w": random(20, 12)})


def prepare() -> None:
    """Have the kernels."""
    warm_up("systolic")


def attempt(path: Path) -> object:
    """Compile the product for it, in one of the two modes, and run."""
    settings = {"mode": "parity"} if path.stat().st_size % 2 else {}
    spec, program = TARGET.load(LoadRequest(_model(), config=path, settings=settings), Impatient())
    session = Session(TARGET.build(spec, program), None)
    return session.go_to(CYCLES * 10)
