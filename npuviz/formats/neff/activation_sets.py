"""Table sets of the Scalar engine in a NEFF (reference 4.7): which functions a set holds, how large it is."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.formats.neff.json_members import Fields, parse_object
from npuviz.formats.neff.model import Subgraph

_ENTRY_BYTES = 32
"""Bytes of a bucket entry and of a control entry (measured on a real NEFF)."""


@dataclass(frozen=True, slots=True)
class ActivationSet:
    """One set of piecewise tables. `functions`: name -> the number that act_info.json gives it.

    `bucket_entries` and `control_entries` are None when the NEFF does not carry the set's tables,
    as for the sets that its programs do not use.
    """

    name: str
    functions: Mapping[str, int]
    bucket_file: str
    control_file: str
    profile_file: str
    bucket_entries: int | None
    control_entries: int | None


def activation_sets(subgraph: Subgraph) -> tuple[ActivationSet, ...]:
    """The sets that a subgraph's act_info.json describes, used or not. Raises FormatError for wrong types."""
    engine = subgraph.engines.get("Activation")
    name = str(engine.extra.get("act_info", "")) if engine else ""
    if name not in subgraph.files:
        return ()
    where = f"{subgraph.folder}/{name}"
    content = Fields(parse_object(subgraph.files[name], where, "act_func_sets"), where, "")
    return tuple(
        _parse_set(subgraph, Fields(value, where, f"act_func_sets[{index}]"))
        for index, value in enumerate(content.objects("act_func_sets"))
    )


def _parse_set(subgraph: Subgraph, values: Fields) -> ActivationSet:
    functions = Fields(values.mapping("act"), values.file, f"{values.where}.act")
    bucket, control = values.text("bkt_bin", ""), values.text("ctrl_bin", "")
    return ActivationSet(
        values.text("name"),
        {name: functions.integer(name) for name in functions.rest()},
        bucket,
        control,
        values.text("profile_json", ""),
        _entries(subgraph, bucket),
        _entries(subgraph, control),
    )


def _entries(subgraph: Subgraph, name: str) -> int | None:
    content = subgraph.files.get(name)
    return None if content is None else len(content) // _ENTRY_BYTES
