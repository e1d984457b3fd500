"""Kernels for one PE whose totals FAB lists (its reference cycles, WSE-3): loops over arrays.

Each is written from its description; the form of its loops and accesses is the published one, since the
totals depend on it.
"""

_ARRAYS = """
const math = @import_module("<math>");
var u = @constants([512]f32, 0.5);
var y = @constants([512]f32, 0.25);
var out = @zeros([512]f32);
"""
_EACH = "var i: u16 = 0; while (i < %d) : (i += 1) { %s }"


def _each(count: int, statement: str) -> str:
    return _EACH % (count, statement)


def _reduced(count: int, statement: str) -> str:
    return "var sum: f32 = 0.0; " + _each(count, statement) + " out[0] = sum; done();"


_ROOT = "const inverse = 1.0 / math.sqrt_f32(sum + 1.0e-6);"
_NORM = "var sum: f32 = 0.0; " + _each(512, "const v = u[i]; sum += v * v;")
_SOFTMAX = (
    "var most: f32 = u[0]; var i: u16 = 1; "
    "while (i < 256) : (i += 1) { const v = u[i]; if (v > most) { most = v; } } "
    "var sum: f32 = 0.0; i = 0; "
    "while (i < 256) : (i += 1) { const e = math.exp_f32(u[i] - most); out[i] = e; sum += e; } "
    "const inverse = 1.0 / sum; i = 0; while (i < 256) : (i += 1) { out[i] *= inverse; } done();"
)
_GELU = (
    "const v = u[i]; const e = math.exp_f32(2.0 * (0.7978845608 * (v + 0.044715 * v * v * v))); "
    "out[i] = 0.5 * v * (1.0 + (e - 1.0) / (e + 1.0));"
)
_ROWS = """
var begins = @zeros([33]u32);
var columns = @constants([256]u32, 3);
"""
_SPARSE = """
  var row: u16 = 0;
  while (row < 32) : (row += 1) { begins[row + 1] = begins[row] + 7 + @as(u32, row & 1) * @as(u32, row & 1); }
  time.get_timestamp(&t0);
  row = 0;
  while (row < 32) : (row += 1) {
    const end: u32 = begins[row + 1];
    var sum: f32 = 0.0;
    var j: u32 = begins[row];
    while (j < end) : (j += 1) { const column: u32 = columns[j]; sum += u[j] * y[column]; }
    out[row] = sum;
  }
  done();
"""
_BINS = """
var numbers = @constants([256]u32, 700);
var bins = @zeros([16]u32);
"""
_COUNT = "const n: u32 = numbers[i]; const bin: u32 = (n / 64) % 16; bins[bin] += 1;"
_PRODUCT = """
  var i: u16 = 0;
  while (i < 16) : (i += 1) {
    const row: u16 = i * 16;
    var j: u16 = 0;
    while (j < 16) : (j += 1) {
      var sum: f32 = 0.0;
      var k: u16 = 0;
      while (k < 16) : (k += 1) { sum += u[row + k] * y[k * 16 + j]; }
      out[row + j] = sum;
    }
  }
  done();
"""
_TABLES = """
var cosines = @constants([4096]f32, 0.5);
var sines = @constants([4096]f32, 0.25);
"""
_FOURIER = """
  var k: u16 = 0;
  while (k < 64) : (k += 1) {
    const row: u16 = k * 64;
    var re: f32 = 0.0; var im: f32 = 0.0;
    var n: u16 = 0;
    while (n < 64) : (n += 1) {
      const v: f32 = u[n];
      re += v * cosines[row + n];
      im += v * sines[row + n];
    }
    out[k] = re; out[64 + k] = im;
  }
  done();
"""
_NORMED = (
    _NORM.replace("512", "256") + " const inverse = 1.0 / math.sqrt_f32(sum / 256.0 + 1.0e-6);"
    " i = 0; while (i < 256) : (i += 1) { out[i] = u[i] * inverse * y[i]; } done();"
)
_DENSITIES = """
var orbitals = @constants([64]f32, 0.5);
var weights = @constants([256]f32, 0.25);
var outer = @zeros([256]f32);
var sums = @zeros([256]f32);
var density = @zeros([16]f32);
"""
_DENSITY = """
  for (@range(u16, 16)) |g| { for (@range(u16, 4)) |j| { for (@range(u16, 4)) |k| {
    outer[g * 16 + j * 4 + k] = orbitals[g * 4 + j] * orbitals[g * 4 + k];
  } } }
  for (@range(u16, 16)) |g| { for (@range(u16, 16)) |b| {
    var sum: f32 = 0.0;
    for (@range(u16, 16)) |a| { sum += outer[g * 16 + a] * weights[a * 16 + b]; }
    sums[g * 16 + b] = sum;
  } }
  for (@range(u16, 16)) |g| {
    var sum: f32 = 0.0;
    for (@range(u16, 16)) |b| { sum += outer[g * 16 + b] * sums[g * 16 + b]; }
    density[g] = sum;
  }
  done();
"""
_STENCIL = """
  var z: u16 = 0;
  while (z < 8) : (z += 1) { var r: u16 = 0; while (r < 8) : (r += 1) {
    var c: u16 = 0;
    while (c < 8) : (c += 1) {
    const at: u16 = z * 64 + r * 8 + c;
    var v: f32 = 6.0 * u[at];
    if (c > 0) { v += -1.0 * u[at - 1]; }
    if (c < 7) { v += -1.0 * u[at + 1]; }
    if (r > 0) { v += -1.0 * u[at - 8]; }
    if (r < 7) { v += -1.0 * u[at + 8]; }
    if (z > 0) { v += -1.0 * u[at - 64]; }
    if (z < 7) { v += -1.0 * u[at + 64]; }
    out[at] = v;
  } } }
  done();
"""
_TRANSPOSED = """
  for (@range(u16, 8)) |i| { for (@range(u16, 8)) |j| { for (@range(u16, 8)) |k| {
    out[(i * 8 + k) * 8 + j] = u[(i * 8 + j) * 8 + k];
  } } }
  done();
"""
_HEADS = """
const math = @import_module("<math>");
var q = @constants([%(rows)d * %(width)d]f32, 0.5);
var keys = @constants([%(keys)d * %(width)d]f32, 0.25);
var values = @constants([%(keys)d * %(width)d]f32, 0.75);
var out = @zeros([%(rows)d * %(width)d]f32);
var weights = @zeros([%(rows)d * %(keys)d]f32);
var used: u16 = %(keys)d;
const weights_of = @get_dsd(mem1d_dsd, .{ .tensor_access = |j|{%(keys)d} -> weights[j] });
const column_of = @get_dsd(mem1d_dsd, .{ .tensor_access = |j|{%(keys)d} -> keys[j * %(width)d] });
const out_of = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{%(width)d} -> out[k] });
const value_of = @get_dsd(mem1d_dsd, .{ .tensor_access = |k|{%(width)d} -> values[k] });
fn head() void {
  const scale: f32 = math.invsqrt_f32(@as(f32, %(width)d));
  var i: i16 = 0;
  while (i < %(rows)d) : (i += 1) {
    const n = @as(i16, used);
    const all = @set_dsd_length(@increment_dsd_offset(weights_of, i * %(keys)d, f32), used);
    @fmovs(all, 0.0);
    var k: i16 = 0;
    while (k < %(width)d) : (k += 1) {
      const column = @set_dsd_length(@increment_dsd_offset(column_of, k, f32), used);
      @fmacs(all, all, column, q[i * %(width)d + k]);
    }
    @fmuls(all, all, scale);
    var most: f32 = math.NEGATIVE_INF_f32;
    @fmaxs(&most, most, all);
    var sum: f32 = 0.0;
    var j: i16 = 0;
    while (j < n) : (j += 1) {
      const e = math.exp_f32(weights[i * %(keys)d + j] - most);
      weights[i * %(keys)d + j] = e;
      sum += e;
    }
    const inverse: f32 = 1.0 / sum;
    @fmuls(all, all, inverse);
    const result = @increment_dsd_offset(out_of, i * %(width)d, f32);
    @fmovs(result, 0.0);
    j = 0;
    while (j < n) : (j += 1) {
      @fmacs(result, result, @increment_dsd_offset(value_of, j * %(width)d, f32), weights[i * %(keys)d + j]);
    }
  }
}
"""


def _head(cycles: int, rows: int, keys: int, width: int) -> tuple[str, int, str, str]:
    text = _HEADS % {"rows": rows, "keys": keys, "width": width}
    return f"attention, {rows} of {keys} rows, {width} wide", cycles, text, "head(); done();"


KERNELS: tuple[tuple[str, int, str, str], ...] = (
    ("sum of 512 f32", 7693, _ARRAYS, _reduced(512, "sum += u[i];")),
    ("running sum of 512 f32", 9229, _ARRAYS,
     "var sum: f32 = 0.0; " + _each(512, "sum += u[i]; out[i] = sum;") + " done();"),
    ("dot product of 512 f32", 10254, _ARRAYS, _reduced(512, "sum += u[i] * y[i];")),
    ("squared distance of 512 f32", 11282, _ARRAYS, _reduced(512, "const d = u[i] - y[i]; sum += d * d;")),
    ("a x + y of 512 f32", 11276, _ARRAYS, _each(512, "y[i] = 2.5 * u[i] + y[i];") + " done();"),
    ("largest of 512 f32", 8188, _ARRAYS,
     "var most: f32 = u[0]; var i: u16 = 1; "
     "while (i < 512) : (i += 1) { const v = u[i]; if (v > most) { most = v; } } out[0] = most; done();"),
    ("max(x, 0) of 512 f32", 11787, _ARRAYS,
     _each(512, "const v = u[i]; out[i] = if (v > 0.0) v else 0.0;") + " done();"),
    ("x / |x| of 512 f32", 18112, _ARRAYS,
     _NORM + _ROOT + " i = 0; while (i < 512) : (i += 1) { out[i] = u[i] * inverse; } done();"),
    ("sigmoid of 512 f32", 107546, _ARRAYS,
     _each(512, "out[i] = 1.0 / (1.0 + math.exp_f32(-u[i]));") + " done();"),
    ("x sigmoid(x) of 512 f32", 104473, _ARRAYS,
     _each(512, "const v = u[i]; out[i] = v / (1.0 + math.exp_f32(-v));") + " done();"),
    ("GELU of 512 f32", 111134, _ARRAYS, _each(512, _GELU) + " done();"),
    ("softmax of 256 f32", 35681, _ARRAYS, _SOFTMAX),
    ("sparse matrix, 32 rows, 240 elements for 235", 6927, _ARRAYS + _ROWS, _SPARSE),
    ("histogram of 256 u32, 16 bins", 6191, _ARRAYS + _BINS, _each(16, "bins[i] = 0;")
     + " i = 0; while (i < 256) : (i += 1) { " + _COUNT + " } done();"),
    ("16 x 16 by 16 x 16 f32", 119197, _ARRAYS, _PRODUCT),
    ("Fourier transform by definition, 64 f32", 145233, _ARRAYS + _TABLES, _FOURIER),
    ("x w / |x| of 256 f32", 10947, _ARRAYS, _NORMED),
    ("pair densities, 16 points, 4 orbitals", 128308, _DENSITIES, _DENSITY),
    ("7-point stencil of 8 x 8 x 8 f32", 40497, _ARRAYS, _STENCIL),
    ("8 x 8 x 8 f32, two axes exchanged", 6183, _ARRAYS, _TRANSPOSED),
    _head(838551, 64, 64, 16),
    _head(21089, 4, 16, 32),
    _head(68764, 4, 64, 32),
    _head(65962, 2, 128, 32),
)  # fmt: skip
"""(name, published cycles, declarations, body) of each kernel; none is left out because its ratio is far
from 1."""
