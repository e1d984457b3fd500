"""CSL programs: a layout and the code of its elements in one text, compiled and run."""

import re
import shutil
from pathlib import Path
from random import Random

from npuviz.workbench.resources import sample_models_path
from tests.fuzz.driving import drive, warm_up
from tests.fuzz.mutations import NUMBERS, change_text
from tests.targets.wavelet import small

SUFFIX = ".txt"
SHARE = 30
_MARK = "//// "
_COMPTIME = """
fn fib(n: comptime_int) comptime_int { if (n < 2) { return n; } return fib(n - 1) + fib(n - 2); }
fn sum(comptime n: u16) u16 { var i: u16 = 0; var s: u16 = 0; while (i < n) : (i += 1) { s += i; } return s; }
const table = [4]i16 { 1, 2, 3, 4 };
const big = @constants([32]f32, 0.5);
const s = .{ .a = 1, .b = .{ 2, 3 } };
comptime { @comptime_assert(fib(7) == 13); for (@range(i16, 4)) |i| { @comptime_assert(table[i] == i + 1); } }
var data: [8]f32 = @zeros([8]f32);
const dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> data[i] });
fn main() void { @fmovs(dsd, 2.0); @fmuls(dsd, dsd, dsd); data[0] = @as(f32, sum(5)); }
"""
_SENDS = """
var buffer = [3]f32 { 1.0, 2.0, 3.0 };
const source = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> buffer[i] });
const out = @get_dsd(fabout_dsd, .{ .extent = 3, .fabric_color = c, .output_queue = @get_output_queue(2) });
fn main() void { if (x == 0) { @fmovs(out, source, .{ .async = true }); } }
comptime { @initialize_queue(@get_output_queue(2), .{ .color = c }); }
"""
_LANGUAGE = """
comptime fn const var param while for if else return break switch task struct enum u16 i16 f32 f16 u32 bool
comptime_int comptime_float comptime_struct @as @range @zeros @constants @concat_structs @bitcast @type_of
@block void @import_module undefined true fib sum main i n 0 1 1e400
0xffffffff ( ) { } [ ] . , ; = + * << - & | == ! ~ % / ..
"""
_TOKEN = re.compile(r"//// |\s+|\w+|@\w+|[^\w\s]")
_TYPE = re.compile(r"[uif](8|16|32|64)|bool|comptime_\w+|color|void")
_WORDS = tuple(_LANGUAGE.split())


def seeds() -> list[bytes]:
    """Programs of few elements, and the layout and code of a sample."""
    found: list[str] = []
    for pe, width, routes in ((_COMPTIME, 1, ""), (_SENDS, 2, small.EASTWARD)):
        layout = small.LAYOUT % {"width": width, "routes": routes}
        found.append(_joined({"layout.csl": layout, "pe.csl": small.HEAD + pe + small.START}))
    folder = sample_models_path() / "csl" / "row_sum"
    found.append(_joined({path.name: path.read_text() for path in sorted(folder.glob("*.csl"))}))
    return [text.encode() for text in found]


def _joined(files: dict[str, str]) -> str:
    return "".join(f"{_MARK}{name}\n{text.rstrip()}\n" for name, text in files.items())


def mutate(data: bytes, rng: Random) -> bytes:
    """Mostly put a token in the place of another of its kind; else change words of the text."""
    text = data.decode(errors="replace")
    if rng.random() < 0.3:
        return change_text(text, rng, _WORDS if rng.random() < 0.8 else ()).encode(errors="replace")
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(tokens)) if tokens else 0
        kind = _kind(tokens[at]) if tokens else ""
        same = [token for token in tokens if _kind(token) == kind]
        if kind == "number" and rng.random() < 0.6:
            same = [str(number) for number in NUMBERS]
        if kind and same:
            tokens[at] = rng.choice(same)
    return "".join(tokens).encode(errors="replace")


def _kind(token: str) -> str:
    """Of a token: word, builtin, number, sign, or "" for space and the marks of files."""
    if token[0].isspace() or token == _MARK:
        return ""
    if token[0].isdigit():
        return "number"
    if token[0] == "@":
        return "builtin"
    if token[0].isalpha() or token[0] == "_":
        return "type" if _TYPE.fullmatch(token) else "word"
    return "bracket" if token in "(){}[]" else "sign"


def prepare() -> None:
    """Have the kernels."""
    warm_up("wavelet")


def attempt(path: Path) -> object:
    """Write the files and open the layout."""
    folder = path.with_name("program")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for part in path.read_bytes().decode(errors="replace").split(_MARK)[1:]:
        name, _, text = part.partition("\n")
        if name in ("layout.csl", "pe.csl"):
            (folder / name).write_text(text)
    layout = folder / "layout.csl"
    layout.touch()
    return drive(layout, settings={"launch": "start"} if b"@export_name" in path.read_bytes() else {})
