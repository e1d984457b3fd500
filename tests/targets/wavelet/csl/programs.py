"""Small CSL programs written to disk for the tests of the front end."""

from collections.abc import Mapping
from pathlib import Path

from npuviz.targets.wavelet.csl import frontend
from npuviz.targets.wavelet.csl.comptime import values
from npuviz.targets.wavelet.csl.comptime.scope import Global
from npuviz.targets.wavelet.csl.comptime.values import Scalar, Value
from npuviz.targets.wavelet.csl.frontend import Elaboration

LAYOUT = """layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{});
}
"""


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files; the path of layout.csl, which is a minimal one if not given."""
    for name, text in {"layout.csl": LAYOUT, **files}.items():
        (folder / name).write_text(text)
    return folder / "layout.csl"


def elaborate(folder: Path, files: Mapping[str, str], arch: str = "wse2", **params: int) -> Elaboration:
    """Elaborate layout.csl of these files."""
    return frontend.elaborate(write(folder, files), arch, params=params)


def globals_of(folder: Path, text: str, arch: str = "wse2") -> dict[str, Value | None]:
    """Values of all globals of a PE program consisting of one file; reading each must succeed."""
    elaboration = elaborate(folder, {"pe.csl": text}, arch)
    root = elaboration.codes[0].root
    found: dict[str, Value | None] = {}
    for name in root.declarations:
        entry = root.member(name)
        if isinstance(entry, Global):
            found[name] = elaboration.comptime.global_value(entry)
    return found


def plain(value: Value | None) -> object:
    """A value as plain Python: numbers, lists, dictionaries."""
    if isinstance(value, Scalar):
        return value.number
    if isinstance(value, values.ArrayValue):
        return [plain(value.element(index)) for index in range(value.kind.count)]
    if isinstance(value, values.StructValue):
        if value.kind.is_tuple:
            return [plain(part) for part in value.fields.values()]
        return {name: plain(part) for name, part in value.fields.items()}
    return value


def numbers(folder: Path, text: str, arch: str = "wse2") -> dict[str, object]:
    """As `globals_of`, in plain Python."""
    return {name: plain(value) for name, value in globals_of(folder, text, arch).items()}
