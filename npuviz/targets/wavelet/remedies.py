"""Offer settings of a wafer that would make a run shorter.

The gain cannot be computed from recorded times: latencies of words overlap with each other and with the pace
of their sender, and operations wait for their words. Only a run with the changed setting tells.
"""

from npuviz.sim.remedy import Remedy
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.costs import operation_names
from npuviz.targets.wavelet.spec import make_spec

_HOST = ("host_setup", "host_launch", "host_word")
_MOST_WORDS = 64


def remedies(request: LoadRequest) -> tuple[Remedy, ...]:
    """Return the remedies for the machine of a request. Raises as `make_spec`.

    If no preset is given, the compiled program chooses the architecture; the figures halved here are those of
    the default preset.
    """
    spec, _ = make_spec(request.preset, request.config, request.settings)
    found: list[Remedy] = []

    def offer(text: str, settings: dict[str, str], *kinds: str) -> None:
        found.append(Remedy(text, settings, (), kinds))

    if spec.hop > 1:
        offer("hops of one cycle, or senders that are nearer", {"hop": "1"}, "words")
    if spec.turn:
        offer("no time for turns, or routes without", {"turn": "0"}, "words")
    if spec.ramp > 1:
        offer("a ramp of one cycle", {"ramp": "1"}, "words")
    room = min(_MOST_WORDS, 2 * spec.buffer_words)
    if room > spec.buffer_words:
        offer("routers with twice the buffers", {"buffer_words": str(room)}, "room", "buffers full")
    halved = {name: str(max(1, getattr(spec, name) // 2)) for name in _HOST}
    offer("a host that starts and moves words in half the time", halved, "host")
    for name in operation_names():
        rate = spec.rate_of(name)
        wider = f"{name}={2 * rate.elements}/{rate.cycles}"
        rates = f"{spec.rates},{wider}" if spec.rates else wider
        offer(f"{name} with twice the elements a step", {"rates": rates}, name)
    return tuple(found)
