import pytest

from npuviz.base.errors import TargetError
from npuviz.formats.onnxim.mapping import Loops
from npuviz.targets.systolic.compiler.parity.tiling import Geometry, tile_conv, tile_gemm
from npuviz.targets.systolic.spec import make_spec

TPUV4 = Geometry.of_core(make_spec()[0])
EDGE = Geometry.of_core(make_spec("edge-8x8")[0])
EDGE_2_BYTES = Geometry.of_core(make_spec("edge-8x8", settings={"precision": "2"})[0])


# Ref: the examples of systolic.md section 10.
@pytest.mark.parametrize(
    ("core", "sizes", "inner", "tiles"),
    [
        (TPUV4, (256, 256, 256), (256, 256, 256), 1),
        (TPUV4, (1024, 1024, 1024), (512, 512, 1024), 4),
        (TPUV4, (1, 1000, 512), (128, 256, 512), 4),
        (TPUV4, (100, 2304, 768), (128, 512, 768), 5),
        (EDGE, (256, 256, 256), (32, 32, 256), 64),
        (EDGE_2_BYTES, (256, 256, 256), (32, 32, 128), 128),
    ],
)
def test_products(
    core: Geometry, sizes: tuple[int, int, int], inner: tuple[int, int, int], tiles: int
) -> None:
    found = tile_gemm(*sizes, core)
    assert (found.inner.n, found.inner.m, found.inner.c) == inner
    assert found.outer.n * found.outer.m * found.outer.c == tiles


@pytest.mark.parametrize(
    ("core", "total", "stride", "padding", "inner"),
    [
        (TPUV4, (3, 64, 112, 7), 2, 3, Loops(c=3, m=64, p=36, q=112, s=7, r=7)),
        (EDGE, (3, 64, 112, 7), 2, 3, Loops(c=3, m=8, p=15, q=17, s=7, r=7)),
        (EDGE, (256, 256, 14, 3), 1, 1, Loops(c=67, m=8, p=14, q=14, s=3, r=3)),
        (EDGE, (512, 512, 7, 3), 1, 1, Loops(c=50, m=40, p=7, q=7, s=3, r=3)),
    ],
)
def test_convolutions(
    core: Geometry, total: tuple[int, ...], stride: int, padding: int, inner: Loops
) -> None:
    c, m, side, kernel = total
    loops = Loops(c=c, m=m, p=side, q=side, s=kernel, r=kernel)
    assert tile_conv(loops, stride, padding, core).inner == inner


def test_division_by_zero_of_onnxim_is_one_line() -> None:
    # Ref: flaw F3, a classifier of 1000 outputs on 16 cores.
    core = Geometry.of_core(make_spec(settings={"cores": "16"})[0])
    with pytest.raises(TargetError, match=r"divides by zero.*--set mode=true runs it"):
        tile_gemm(1, 1000, 512, core)


def test_small_sram_is_one_line() -> None:
    tiny = Geometry.of_core(make_spec("edge-8x8", settings={"spad_size": "1", "accum_spad_size": "1"})[0])
    assert tile_gemm(8, 8, 8, tiny).inner == Loops(n=8, c=8, m=8)
    none = Geometry.of_core(make_spec(settings={"spad_size": "1", "accum_spad_size": "1"})[0])
    with pytest.raises(TargetError, match="larger spad_size"):
        tile_gemm(8, 8, 8, none)
    sizes = {"spad_size": "1", "accum_spad_size": "1", "core_width": "256", "core_height": "256"}
    with pytest.raises(TargetError, match="not even one output point"):
        tile_conv(Loops(c=3, m=8, p=4, q=4, s=3, r=3), 1, 1, Geometry.of_core(make_spec(settings=sizes)[0]))


def test_rectangles_need_a_mapping() -> None:
    with pytest.raises(TargetError, match="output 4x5"):
        tile_conv(Loops(c=3, m=8, p=4, q=5, s=3, r=3), 1, 1, TPUV4)
