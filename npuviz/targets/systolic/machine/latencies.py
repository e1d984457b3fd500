"""Latencies that a seed changes, and their ranges."""

from dataclasses import replace

import numpy as np

from npuviz.sim.latencies import Draws, Varied, scaled
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables

# Assumed: all bounds. Nobody publishes how much these times scatter.
_VECTOR = (0.5, 4.0)
_MEMORY = (0.5, 8.0)
_HOST = (0.5, 2.0)
LATENCIES = (
    "add_latency", "mul_latency", "mac_latency", "div_latency", "exp_latency", "gelu_latency",
    "add_tree_latency", "scalar_sqrt_latency", "scalar_add_latency", "scalar_mul_latency",
)  # fmt: skip
"""Keys of the configuration file, at the LAT_ positions."""
_OF_CORES, _OF_HOST = "vector and scalar units of each core, cycles an operation", "calls of the Host"
_OF_MEMORY = "latency of DRAM and network"

NOT_VARIED = (
    "arrays: cycles of a product follow from its sizes",
    "DRAM with commands, network with flits: their rules",
)


def varied(spec: SystolicSpec, tables: SystolicTables) -> tuple[Varied, ...]:
    """Return the latencies that a seed changes in a run of a program."""
    hosts = int((tables.layers[:, tk.LAYER.host_cycles] > 0).sum())
    found = (
        Varied(_OF_CORES, spec.num_cores * len(LATENCIES), *_VECTOR),
        Varied(_OF_MEMORY, (spec.device is None) + (spec.flits is None), *_MEMORY),
        Varied(_OF_HOST, hosts, *_HOST),
    )
    return tuple(each for each in found if each.count)


def varied_spec(spec: SystolicSpec) -> SystolicSpec:
    """Return the spec with the latencies of cores, DRAM and network changed by its seed."""
    if not spec.latency_seed:
        return spec
    draws, count = Draws(spec.latency_seed), len(LATENCIES)
    units = np.repeat(np.arange(spec.num_cores), count)
    factors = draws.factors(Varied(_OF_CORES, len(units), *_VECTOR), units).reshape(-1, count)
    cores = tuple(
        replace(core, **dict(zip(LATENCIES, _scaled_core(core, row), strict=True)))
        for core, row in zip(spec.cores, factors, strict=True)
    )
    dram, network = draws.factors(Varied(_OF_MEMORY, 2, *_MEMORY), (0, 1)).tolist()
    config = replace(
        spec.config,
        cores=cores,
        dram_latency=max(1, round(spec.config.dram_latency * dram)),
        icnt_latency=max(1, round(spec.config.icnt_latency * network)),
    )
    return replace(spec, config=config)


def _scaled_core(core: object, factors: np.ndarray) -> list[int]:
    values = np.array([getattr(core, name) for name in LATENCIES], np.int64)
    return scaled(values, factors, 1).tolist()


def varied_tables(spec: SystolicSpec, tables: SystolicTables) -> SystolicTables:
    """Return the tables with the times of Host calls changed by the spec's seed."""
    layers = tables.layers
    hosts = np.flatnonzero(layers[:, tk.LAYER.host_cycles] > 0)
    if not spec.latency_seed or not len(hosts):
        return tables
    factors = Draws(spec.latency_seed).factors(Varied(_OF_HOST, len(hosts), *_HOST), np.zeros(len(hosts)))
    layers = layers.copy()
    layers[hosts, tk.LAYER.host_cycles] = scaled(layers[hosts, tk.LAYER.host_cycles], factors, 1)
    return replace(tables, layers=layers)
