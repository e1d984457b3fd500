"""Write values of a processing element as text, by the type that a CSL program gives them."""

import re

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k

SHOWN_VALUES = 8
_ARRAY = re.compile(r"\[(\d+(?:\s*,\s*\d+)*)\](.+)")
_NUMBERS = {
    "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32",
    "u64": "uint64", "i64": "int64", "f16": "float16", "f32": "float32", "bool": "bool",
    "bf16": "bfloat16",
}  # fmt: skip
_KINDS = {
    k.KIND_MEM1D: "mem1d", k.KIND_MEM4D: "mem4d", k.KIND_CIRCBUF: "circular buffer",
    k.KIND_FABIN: "from queue", k.KIND_FABOUT: "to queue", k.KIND_FIFO: "FIFO", k.KIND_DSR: "DSR",
}  # fmt: skip


def array_of(type_text: str) -> tuple[str, int]:
    """Return (element type, elements) of a type as CSL writes it; (the type, 1) of a type that is no
    array."""
    count = 1
    found = _ARRAY.fullmatch(type_text)
    while found is not None:
        for size in found[1].split(","):
            count *= int(size)
        type_text = found[2].strip()
        found = _ARRAY.fullmatch(type_text)
    return type_text, count


def size_of(type_text: str) -> int:
    """Return the bytes of a type in memory, 0 if the type is not known here."""
    element, count = array_of(type_text)
    if element in _NUMBERS:
        return numpy_dtype(_NUMBERS[element]).itemsize * count
    if _is_descriptor(element):
        return 8 * count
    is_id = element in ("color", "direction") or element.endswith(("_id", "_queue"))
    return 2 * count if is_id or _is_address(element) else 0


def value_text(data: bytes, type_text: str, dtype: str = "") -> str:
    """Return the first values of a variable's bytes as text.

    dtype  how to read elements of a type that is not known here; "" shows their bytes
    """
    element, count = array_of(type_text)
    if _is_descriptor(element) and len(data) >= 8 * count:
        words = np.frombuffer(data[: 8 * count], np.int64).tolist()
        return joined([descriptor_text(word) for word in words[:SHOWN_VALUES]], count)
    if _is_address(element) and len(data) >= 2 * count:
        addresses = np.frombuffer(data[: 2 * count], np.uint16).tolist()
        return joined([f"{address:#x}" for address in addresses[:SHOWN_VALUES]], count)
    name = _NUMBERS.get(element, dtype)
    try:
        kind = numpy_dtype(name)
    except ValueError:
        return data[:SHOWN_VALUES].hex(" ") + (" ..." if len(data) > SHOWN_VALUES else "")
    total = len(data) // kind.itemsize
    if element not in _NUMBERS:
        count = total
    shown = min(count, SHOWN_VALUES, total)
    values = np.frombuffer(data[: shown * kind.itemsize], kind).tolist()
    return joined([_number(value) for value in values], count)


def register_text(value: int, type_text: str) -> str:
    """Return a register word as text: registers hold integers as values, floats as raw bits, descriptors
    packed."""
    element, _ = array_of(type_text)
    if _is_descriptor(element):
        return descriptor_text(value)
    if element == "bool":
        return "true" if value else "false"
    if element == "f32":
        return _number(float(np.uint32(value & 0xFFFF_FFFF).view(np.float32)))
    if element in ("f16", "bf16"):
        kind = numpy_dtype(_NUMBERS[element])
        return _number(float(np.array([value & 0xFFFF], np.uint16).view(kind)[0]))
    return f"{value & 0xFFFF:#x}" if _is_address(element) else str(value)


def descriptor_text(word: int) -> str:
    """Return a descriptor in a few words: "mem1d at 0x40, 8 elements"."""
    kind = word & k.MASK_KIND
    name = _KINDS.get(kind, "no descriptor")
    extent = isa.unpack(word, k.F_EXTENT)
    if kind in (k.KIND_FABIN, k.KIND_FABOUT):
        queue, color = isa.unpack(word, k.F_QUEUE), isa.unpack(word, k.F_COLOR)
        where = f" {queue}" if queue != isa.NO_QUEUE else ""
        return f"{name}{where}{f' color {color}' if color != isa.NO_COLOR else ''}, {extent} words"
    if kind in (k.KIND_MEM1D, k.KIND_MEM4D, k.KIND_CIRCBUF):
        stride = isa.unpack(word, k.F_STRIDE)
        step = f", stride {stride}" if kind == k.KIND_MEM1D and stride != 1 else ""
        return f"{name} at {isa.unpack(word, k.F_BASE):#x}, {extent} elements{step}"
    if kind == k.KIND_FIFO:
        return f"{name} {isa.unpack(word, k.F_BASE)}"
    return f"{name} {isa.unpack(word, k.F_DSR_ID)}" if kind == k.KIND_DSR else name


def _is_descriptor(element: str) -> bool:
    return element.endswith("_dsd") or element == "fifo" or element.startswith("dsr_")


def _is_address(element: str) -> bool:
    return element.startswith(("*", "[*]", "fn"))


def _number(value: float | int | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def joined(texts: list[str], count: int) -> str:
    """Join the texts of the first of `count` values; a single value stays as it is."""
    if count == 1 and texts:
        return texts[0]
    return f"[{' '.join(texts)}{' ...' if count > len(texts) else ''}]"
