"""Write cycles, times, sizes and shapes as text, each in one way."""

THIN_SPACE = "\u2009"
NARROW_NO_BREAK = "\u202f"


def format_count(value: int) -> str:
    """Write an integer in groups of three digits: 1204511 -> '1 204 511' (thin spaces)."""
    return f"{value:,}".replace(",", THIN_SPACE)


def format_amount(value: int, noun: str) -> str:
    """Write how many there are of something: (2, 'operator') -> '2 operators'."""
    return f"{format_count(value)} {noun}" if value == 1 else f"{format_count(value)} {noun}s"


def format_share(part: float, digits: int = 1) -> str:
    """Write a part of a whole in percent: 0.065 -> '6.5 %' (a narrow space that does not break)."""
    return f"{100 * part:.{digits}f}{NARROW_NO_BREAK}%"


def format_bytes(size: int) -> str:
    """Write a size with KiB = 1024 bytes: 33554432 -> '32 MiB'."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024 or unit == "GiB":
            return f"{amount:.4g} {unit}"
        amount /= 1024
    return f"{size} B"


def format_cycles_as_time(cycles: int, frequency_hz: float) -> str:
    """Write a number of base-clock cycles as a time: (1500, 1e9) -> '1.5 us'."""
    if frequency_hz <= 0:
        return ""
    seconds = cycles / frequency_hz
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        if seconds >= scale or unit == "ns":
            return f"{seconds / scale:.4g} {unit}"
    return ""


def format_shape(shape: tuple[int, ...]) -> str:
    """Write the dimensions of a tensor: (1, 64, 56) -> '1\u00d764\u00d756'; 'scalar' without any."""
    return "\u00d7".join(str(dim) for dim in shape) if shape else "scalar"
