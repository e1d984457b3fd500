"""Settings of a systolic machine that would make a run shorter."""

from npuviz.sim.remedy import Effect, Knob, Remedy
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.load.settings import list_settings

_MEMORY = ("memory", "MOVIN", "MOVOUT", "requests")

_HOST = ("host_cycles", "host_bytes_per_cycle", "host_operations_per_cycle")

_LATENCIES = {"mac_latency": ("MAC",), "div_latency": ("DIV",), "gelu_latency": ("GELU", "SWISH")}
"""Latency -> vector instructions that take a multiple of it. Other latencies are parts of SOFTMAX and
LAYERNORM too."""


def knobs(request: LoadRequest) -> tuple[Knob, ...]:
    """Return the latencies that only some vector instructions take, if all cores have the same."""
    values = {setting.name: setting.value for setting in list_settings(request)}
    latencies = {name: kinds for name, kinds in _LATENCIES.items() if values.get(name, "").isdigit()}
    return tuple(Knob(name, float(values[name]), kinds) for name, kinds in latencies.items())


def remedies(request: LoadRequest) -> tuple[Remedy, ...]:
    """Return remedies for the machine of a request."""
    values = {setting.name: setting.value for setting in list_settings(request)}
    found: list[Remedy] = []
    ports = values.get("icnt_injection_ports_per_core", "")
    if ports.isdigit():
        more = {"icnt_injection_ports_per_core": str(2 * int(ports))}
        found.append(Remedy("twice the network ports of a core", more, (), _MEMORY))
    host = {
        name: values[name] for name in ("host_cycles", "host_bytes_per_cycle", "host_operations_per_cycle")
    }
    if all(value.isdigit() for value in host.values()):
        faster = {name: str(2 * int(value)) for name, value in host.items()}
        faster["host_cycles"] = str(max(1, int(host["host_cycles"]) // 2))
        found.append(Remedy("a host twice as fast", faster, (Effect(0.5, ("HOST",)),)))
    if values.get("mode") == "true" and values.get("core_type", "") != "systolic_os":
        kinds = ("LOAD_WEIGHTS", "result", "GEMM", "GEMM_PRELOAD")
        found.append(Remedy("keep results in the array", {"core_type": "systolic_os"}, (), kinds))
    return tuple(found)
