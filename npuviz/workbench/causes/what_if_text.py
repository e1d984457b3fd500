"""What-if questions as text: `unit=PE speed=2`, or settings: `dma_start_ns=650`."""

import shlex
from difflib import get_close_matches

from npuviz.base.errors import UsageError
from npuviz.trace.causes.what_if import Change
from npuviz.trace.schema import TraceSchema
from npuviz.trace.unit_times import tracks_of_units, unit_label

KEYS = ("unit", "cause", "operator", "speed")
_FORM = "expected unit=NAME, cause=NAME or operator=NAME, and speed=NUMBER (inf: takes no time)"


def settings_of(text: str) -> dict[str, str]:
    """Return the settings of a question that consists of NAME=VALUE pairs only, {} for any other question."""
    pairs = [word.partition("=") for word in text.split()]
    if any(not value or not name or name in KEYS for name, _, value in pairs):
        return {}
    return {name: value for name, _, value in pairs}


def parse_what_if(text: str, schema: TraceSchema) -> Change:
    """Parse a what-if question. Raises UsageError for bad syntax, and for names that the trace does not
    have."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"what-if {text[:60]!r}: {error}; {_FORM}") from None
    pairs: dict[str, str] = {}
    for word in words:
        key, is_pair, value = word.partition("=")
        if not is_pair or key not in KEYS or key in pairs or not value:
            raise UsageError(f"what-if {word[:60]!r}: {_FORM}")
        pairs[key] = value
    if "speed" not in pairs or len(pairs) < 2:
        raise UsageError(f"what-if {text[:60]!r}: {_FORM}")
    units = {unit: unit_label(schema, unit) for unit in tracks_of_units(schema)}
    kinds = {kind.id: kind.name for kind in schema.kinds}
    nodes = dict(enumerate(schema.node_names))
    return Change(
        _factor(pairs["speed"]),
        _chosen("unit", pairs, units),
        _chosen("cause", pairs, kinds),
        _chosen("operator", pairs, nodes),
    )


def _factor(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise UsageError(f"what-if speed={text[:30]}: expected a number above 0, or inf")
    return 1 / speed


def _chosen(key: str, pairs: dict[str, str], names: dict[int, str]) -> frozenset[int] | None:
    """Return the ids whose name, or last part behind a dot (also without its [number]), equals the text; None
    without this key."""
    if key not in pairs:
        return None
    wanted = pairs[key].lower()
    found = frozenset(one for one, name in names.items() if _fits(name.lower(), wanted))
    if not found:
        parts = sorted({part for name in names.values() for part in (name, name.rpartition(".")[2])})
        close = get_close_matches(pairs[key], parts, n=3, cutoff=0.4)
        hint = f"; close: {', '.join(close)}" if close else ""
        raise UsageError(f"what-if {key}={pairs[key][:60]}: nothing has this name{hint}")
    return found


def _fits(name: str, wanted: str) -> bool:
    last = name.rpartition(".")[2]
    return wanted in (name, last, last.partition("[")[0])
