"""Small CSL programs of our own, and how tests compile and drive them."""

from npuviz.targets.wavelet.host.cslc import compile_to_folder, parse_arguments
from npuviz.targets.wavelet.host.runtime import SdkRuntime

LAYOUT = """%s
param width: u16;
param height: u16;
const memcpy = @import_module("<memcpy/get_params>", .{
  .width = width, .height = height, .MEMCPYH2D_1 = 1, .MEMCPYD2H_1 = 2,
});
layout {
  @set_rectangle(width, height);
  for (@range(u16, width)) |x| {
    for (@range(u16, height)) |y| {
      @set_tile_code(x, y, "pe.csl", .{ .memcpy_params = memcpy.get_params(x) %s });
    }
  }
  %s
}
"""
PE = """
param memcpy_params;
const sys_mod = @import_module("<memcpy/memcpy>", memcpy_params);
%s
"""


def compile_folder(folder, pe, exports, width=1, height=1, arch="wse3", params="", head=""):
    """Compile a program whose PEs all run `pe`; returns the compiled folder.

    params  more fields of the parameters of a PE; head  text in front of the layout file
    """
    names = "\n  ".join(f'@export_name("{name}", {rest});' for name, rest in exports.items())
    (folder / "layout.csl").write_text(LAYOUT % (head, params, names))
    (folder / "pe.csl").write_text(PE % pe)
    words = f"{folder}/layout.csl --arch={arch} --params=width:{width},height:{height} -o {folder}/out"
    words += f" --fabric-dims={width + 7},{height + 2} --fabric-offsets=4,1 --memcpy --channels=1"
    compile_to_folder(parse_arguments(words.split()))
    return folder / "out"


def start(folder):
    """A loaded, running program."""
    runtime = SdkRuntime(str(folder))
    runtime.load()
    runtime.run()
    return runtime
