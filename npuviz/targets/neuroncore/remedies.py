"""List the settings of a NeuronCore that would make a run shorter, and the durations they scale."""

from npuviz.sim.remedy import Effect, Knob, Remedy
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.load.settings import list_settings

_CLOCKS = {"pe_hz": "PE", "pool_hz": "Pool", "dve_hz": "DVE", "sp_hz": "SP", "activation_hz": "Activation"}
_TIMES = {"dma_start_ns": "start of a DMA", "table_load_ns": "table_load"}


def knobs(request: LoadRequest) -> tuple[Knob, ...]:
    """Return the settings that durations are proportional to: engine clocks, DMA start and table load."""
    values = {setting.name: setting.value for setting in list_settings(request)}
    found = [Knob(name, float(values[name]), (kind,)) for name, kind in _TIMES.items()]
    # Loading a table takes nanoseconds, independent of the engine's clock.
    fixed = (_TIMES["table_load_ns"],)
    found += [
        Knob(name, float(values[name]), (), unit, is_rate=True, but=fixed) for name, unit in _CLOCKS.items()
    ]
    return tuple(found)


def remedies(request: LoadRequest) -> tuple[Remedy, ...]:
    """Return the remedies for the machine of a request."""
    values = {setting.name: setting.value for setting in list_settings(request)}
    start, table = float(values["dma_start_ns"]), float(values["table_load_ns"])
    found = [
        Remedy(
            "start DMA in half the time",
            {"dma_start_ns": f"{start / 2:g}"},
            (Effect(0.5, ("start of a DMA",)),),
        ),
        Remedy(
            "load activation tables in half the time, or use functions of fewer table sets",
            {"table_load_ns": f"{table / 2:g}"},
            (Effect(0.5, ("table_load",)),),
        ),
        Remedy(
            "a DMA engine twice as fast, as contiguous runs of twice the bytes make it",
            {
                "dma_element_ns": f"{float(values['dma_element_ns']) / 2:g}",
                "dma_peak_bytes_per_ns": f"{float(values['dma_peak_bytes_per_ns']) * 2:g}",
            },
            (Effect(0.5, ("dma",)),),
        ),
    ]
    if values["dtype"] == "float32":
        kinds = ("nc_matmul", "nc_transpose", "waits for a semaphore")
        found.append(Remedy("compute in bfloat16", {"dtype": "bf16"}, (), kinds))
    return tuple(found)
