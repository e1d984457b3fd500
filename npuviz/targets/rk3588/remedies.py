"""Offer settings of an RK3588 that would make a run shorter, with their effects on times."""

from npuviz.sim.remedy import Effect, Knob, Remedy
from npuviz.sim.target import LoadRequest
from npuviz.targets.rk3588.spec import list_settings

_STREAMS = ("features", "weights", "operands", "write", "waits for the bus")
_HALVED = (
    ("job_driver_ns", "start jobs in half the time, or put more operators into one", ("driver",)),
    ("task_ns", "start tasks in half the time, or cut layers into fewer", ("registers",)),
)


def knobs(request: LoadRequest) -> tuple[Knob, ...]:
    """Return the settings that a time is proportional to, and the rates of DDR."""
    values = {setting.name: setting.value for setting in list_settings(request)}
    found = [Knob(name, float(values[name]), kinds) for name, _, kinds in _HALVED]
    rates = ("ddr_hz", "ddr_bytes_per_clock", "ddr_share")
    return (*found, *(Knob(name, float(values[name]), _STREAMS, is_rate=True) for name in rates))


def remedies(request: LoadRequest) -> tuple[Remedy, ...]:
    """Return remedies for the machine of a request."""
    values = {setting.name: setting.value for setting in list_settings(request)}
    found = [
        Remedy(text, {name: f"{float(values[name]) / 2:g}"}, (Effect(0.5, kinds),))
        for name, text, kinds in _HALVED
    ]
    clock = int(values["ddr_hz"])
    found.append(Remedy("DDR at twice the clock", {"ddr_hz": str(2 * clock)}, (Effect(0.5, _STREAMS),)))
    names = ("host_call_ns", "host_operator_ns")
    rates = ("host_convert_bytes_per_ns", "host_bytes_per_ns", "host_operations_per_ns")
    faster = {name: f"{float(values[name]) / 2:g}" for name in names}
    faster |= {name: f"{float(values[name]) * 2:g}" for name in rates}
    found.append(Remedy("a host twice as fast, or fewer operators on it", faster, (Effect(0.5, ("host",)),)))
    if values["cores"] == "1":
        found.append(Remedy("use all three cores", {"cores": "3"}, (), ("stripe", "output", "pool")))
    return tuple(found)
