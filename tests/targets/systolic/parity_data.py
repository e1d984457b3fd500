"""The reference rows and how to compile them."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from npuviz.base.progress import NoProgress
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.template import Rows
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.load.loader import compile_file
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from npuviz.targets.systolic.tables import SystolicTables

ONNXIM = Path(__file__).parents[2] / "data" / "onnxim"


@dataclass(frozen=True)
class ReferenceRow:
    """A row of reference_cycles.csv."""

    config: str
    models_list: str
    cycles: int
    gemms: int
    reads: int
    writes: int
    tiles: int

    @property
    def id(self) -> str:
        size = self.config.removeprefix("systolic_ws_").split("_")[0]
        return f"{size}-{self.config.rsplit('_', 1)[1]}-{self.models_list}"


def reference_rows() -> list[ReferenceRow]:
    """All rows, of whatever DRAM and network: the counts without time are the same."""
    with (ONNXIM / "reference_cycles.csv").open(newline="") as stream:
        return [
            ReferenceRow(
                row["config"],
                row["models_list"],
                *(int(row[key]) for key in ("cycles", "gemm_instructions", "reads", "writes", "tiles")),
            )
            for row in csv.DictReader(stream)
        ]


@cache
def compile_row(config: str, models_list: str) -> tuple[Compiled, SystolicSpec]:
    """Compile a row with simple DRAM and simple network."""
    settings = {"mode": "parity", "dram_type": "simple", "icnt_type": "simple"}
    spec, _ = make_spec(config=ONNXIM / "configs" / f"{config}.json", settings=settings)
    return compile_file(
        LoadRequest(ONNXIM / "model_lists" / f"{models_list}.json"), spec, {}, NoProgress()
    ), spec


def count_requests(tables: SystolicTables, req_size: int) -> dict[str, int]:
    """GEMM instructions, read and write requests, and tiles of a program, one tile after the other."""
    counts = {"gemms": 0, "reads": 0, "writes": 0, "tiles": len(tables.tiles)}
    for tile in tables.tiles:
        code = tables.code[tile[tk.TILE.code] : tile[tk.TILE.code] + tile[tk.TILE.count]]
        counts["gemms"] += int(np.isin(code[:, tk.CODE.op], (tk.OP_GEMM, tk.OP_GEMM_PRELOAD)).sum())
        for row in code[code[:, tk.CODE.op] <= tk.OP_MOVOUT].tolist():
            base = int(tile[tk.TILE.base + row[tk.CODE.base]])
            number = len(rows_of(row).addresses(base, req_size))
            counts["reads" if row[tk.CODE.op] == tk.OP_MOVIN else "writes"] += number
    return counts


def rows_of(row: list[int]) -> Rows:
    """The rows that a move instruction's CODE row describes."""
    words = (
        tk.CODE.base,
        tk.CODE.offset,
        tk.CODE.len,
        tk.CODE.n0,
        tk.CODE.s0,
        tk.CODE.n1,
        tk.CODE.s1,
        tk.CODE.mode,
    )
    return Rows(*(row[word] for word in words))
