"""Read and write the engine JSON of a NEFF (reference 4.6):
DMA entries, with the type of every field checked.

A big model has 50,000 entries, so entries of the common shape take a fast path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NoReturn

from npuviz.base.errors import FormatError
from npuviz.formats.neff.json_members import INTEGER_LIMIT, Fields, one_line, told
from npuviz.formats.neff.model import Access, Descriptor, DmaEntry

_NOTHING: Mapping[str, Any] = {}
_ENTRY_KEYS = frozenset(each.name for each in fields(DmaEntry)) - {"extra"}
_SIDE_KEYS = {
    side: (side, f"{side}_off", f"{side}_steps", f"{side}_sizes", f"{side}_dtype") for side in ("to", "from")
}
_SOURCE_KEYS = frozenset((*_SIDE_KEYS["from"], "scale"))
_PLAIN_KEYS = frozenset((*_SIDE_KEYS["to"], *_SIDE_KEYS["from"]))
"""Keys of a plain copy: a descriptor with no other key is one."""
_OWN_KEYS = frozenset(each.name for each in fields(Descriptor)) - {
    *("to_access", "sources", "uses_from_arr", "extra")
}
_DESC_KEYS = _PLAIN_KEYS | _OWN_KEYS | {"from_arr"}


def parse_entries(entries: Sequence[Any], file: str, member: str) -> tuple[DmaEntry, ...]:
    """Parse the `dma` list of an engine. Raises FormatError that names the member, the entry and the key."""
    found: list[DmaEntry] = []
    for entry in entries:
        try:
            found.append(_parse_entry(entry, file, ""))
        except FormatError:
            # Parsed again with the place as text, which is made only for an error.
            found.append(_parse_entry(entry, file, f"{member}, dma[{len(found)}]"))
    return tuple(found)


def _parse_entry(value: Any, file: str, where: str) -> DmaEntry:
    fields = Fields(value, file, where)
    if "desc" not in value:
        fields.fail("desc", "an object")
    unknown = value.keys() - _ENTRY_KEYS
    return DmaEntry(
        id=fields.integer("id"),
        desc=_parse_descriptor(value["desc"], file, where and f"{where}.desc"),
        queue=fields.text("queue") if "queue" in value else "",
        instance_name=fields.text("instance_name") if "instance_name" in value else "",
        function_start=fields.text("function_start") if "function_start" in value else "",
        section_start_desc=fields.flag("section_start_desc") if "section_start_desc" in value else False,
        event=fields.integer("event") if "event" in value else None,
        semaphore=fields.integer("semaphore") if "semaphore" in value else None,
        remote_semaphores=fields.integers("remote_semaphores") if "remote_semaphores" in value else (),
        extra={key: value[key] for key in unknown} if unknown else _NOTHING,
    )


def _parse_descriptor(value: Any, file: str, where: str) -> Descriptor:
    destination = _parse_access(value, "to", file, where)
    if value.keys() <= _PLAIN_KEYS:
        return Descriptor(destination, (_parse_access(value, "from", file, where),))
    fields = Fields(value, file, where)
    uses_from_arr = "from_arr" in value
    if uses_from_arr:
        sources = tuple(
            _parse_access(source, "from", file, where and f"{where}.from_arr[{index}]", is_entry=True)
            for index, source in enumerate(fields.objects("from_arr"))
        )
        stray = [key for key in _SIDE_KEYS["from"] if key in value]
        if stray:
            fields.fail(stray[0], "no from fields beside from_arr")
    else:
        sources = (_parse_access(value, "from", file, where),)
    unknown = value.keys() - _DESC_KEYS
    return Descriptor(
        to_access=destination,
        sources=sources,
        op=fields.text("op", "copy"),
        uses_from_arr=uses_from_arr,
        num_tiling_dimensions=fields.optional_integer("num_tiling_dimensions"),
        scale=fields.number("scale"),
        scale_dtype=fields.optional_text("scale_dtype"),
        constant=fields.number("constant"),
        constant_dtype=fields.optional_text("constant_dtype"),
        transpose_shape=fields.integers("transpose_shape") if "transpose_shape" in value else None,
        transpose_element_size=fields.optional_integer("transpose_element_size"),
        extra={key: value[key] for key in unknown} if unknown else _NOTHING,
    )


def _parse_access(value: Any, side: str, file: str, where: str, is_entry: bool = False) -> Access:
    if type(value) is not dict:
        _fail(file, where, "an object")
    key, off, steps, sizes, dtype = _SIDE_KEYS[side]
    variable = value.get(key)
    offset = value.get(off)
    if type(variable) is not str:
        _fail(file, f"{where}.{key}", "the name of a variable")
    if type(offset) is not int or not -INTEGER_LIMIT < offset < INTEGER_LIMIT:
        _fail(file, f"{where}.{off}", "an integer")
    kind = value.get(dtype, "uint8")
    if type(kind) is not str:
        _fail(file, f"{where}.{dtype}", "the name of a dtype")
    extra: Mapping[str, Any] = _NOTHING
    scale = None
    if is_entry:
        scale = Fields(value, file, where).number("scale") if "scale" in value else None
        unknown = value.keys() - _SOURCE_KEYS
        extra = {key: value[key] for key in unknown} if unknown else _NOTHING
    return Access(
        variable,
        offset,
        _integers(value.get(steps), file, where, steps),
        _integers(value.get(sizes), file, where, sizes),
        kind,
        scale,
        extra,
    )


def _integers(value: Any, file: str, where: str, key: str) -> tuple[int, ...]:
    if type(value) is not list:
        _fail(file, f"{where}.{key}", "a list of integers")
    for each in value:
        if type(each) is not int or not -INTEGER_LIMIT < each < INTEGER_LIMIT:
            _fail(file, f"{where}.{key}", "a list of integers")
    return tuple(value)


def _fail(file: str, where: str, expected: str) -> NoReturn:
    raise FormatError(file, field=one_line(where), expected=expected, found="something else")


# --- writing -----------------------------------------------------------------------------------


def entry_objects(entries: Sequence[DmaEntry]) -> list[dict[str, Any]]:
    """Return the `dma` list as JSON objects; fields with their default value are left out."""
    return [_entry_object(entry) for entry in entries]


def _entry_object(entry: DmaEntry) -> dict[str, Any]:
    return {**entry.extra, **told(entry, _ENTRY_KEYS), "desc": _descriptor_object(entry.desc)}


def _descriptor_object(desc: Descriptor) -> dict[str, Any]:
    found: dict[str, Any] = {**desc.extra}
    _put_access(found, desc.to_access, "to")
    if desc.uses_from_arr or len(desc.sources) != 1:
        found["from_arr"] = [_source_object(source) for source in desc.sources]
    else:
        _put_access(found, desc.sources[0], "from")
    return found | told(desc, _OWN_KEYS)


def _put_access(found: dict[str, Any], access: Access, side: str) -> None:
    key, off, steps, sizes, dtype = _SIDE_KEYS[side]
    found[key] = access.variable
    found[off] = access.offset
    found[steps] = access.steps
    found[sizes] = access.sizes
    if access.dtype != "uint8":
        found[dtype] = access.dtype


def _source_object(access: Access) -> dict[str, Any]:
    found = {**access.extra, **told(access, ("scale",))}
    _put_access(found, access, "from")
    return found
