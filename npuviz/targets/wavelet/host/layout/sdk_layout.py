"""Stand in for SdkLayout, with which host programs build layouts from code regions, ports and connections.

`compile` writes an ordinary CSL layout (every PE with its code, parameters and routes) and compiles it.
Streams of the host end in small forwarding programs beside their ports.
"""

from collections.abc import Sequence
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.layout.compile import compile_layout
from npuviz.targets.wavelet.host.layout.regions import (
    LARGEST_SIDE,
    Artifacts,
    CodeRegion,
    IntVector,
    Port,
    Stream,
)
from npuviz.targets.wavelet.host.platform import Platform


class SdkLayout:
    """Code regions, their places, and the connections of their ports."""

    def __init__(self, platform: Platform) -> None:
        """Begin a layout for the architecture of a platform that `get_platform` returned."""
        self.platform = platform
        self.regions: list[CodeRegion] = []
        self.connections: list[tuple[Port, Port]] = []
        self.streams: list[Stream] = []

    def create_code_region(self, file: str, name: str, width: int, height: int) -> CodeRegion:
        """Add a rectangle of PEs that run one source file."""
        if any(region.name == name for region in self.regions):
            raise UsageError(f"{name[:60]}: a code region of this name exists already")
        if not (1 <= width <= LARGEST_SIDE and 1 <= height <= LARGEST_SIDE):
            raise UsageError(f"{name[:60]}: {width} x {height} PEs; expected 1 to {LARGEST_SIDE} each way")
        region = CodeRegion(Path(file), name, width, height)
        self.regions.append(region)
        return region

    def connect(self, source: Port, target: Port) -> None:
        """Let wavelets that leave one port enter at another."""
        if source.is_input or not target.is_input:
            raise UsageError("connect: expected an output port and an input port")
        if source.size != target.size or len(source.places) != len(target.places):
            raise UsageError(
                f"connect: {source.region.name} and {target.region.name}: sizes {source.size} and "
                f"{target.size}, {len(source.places)} and {len(target.places)} PEs"
            )
        self.connections.append((source, target))

    def create_input_stream(
        self, port: Port, io_loc: IntVector | None = None, io_buffer_size: int = 1024
    ) -> Stream:
        """Let the host send to a port of one PE."""
        return self._stream(port, True)

    def create_output_stream(
        self, port: Port, io_loc: IntVector | None = None, io_buffer_size: int = 1024
    ) -> Stream:
        """Let the host receive from a port of one PE."""
        return self._stream(port, False)

    def _stream(self, port: Port, is_input: bool) -> Stream:
        if port.is_input != is_input:
            raise UsageError(f"stream of {port.region.name}: the port goes the other way")
        if len(port.places) != 1:
            raise UsageError(f"stream of {port.region.name}: expected a port of one PE")
        stream = Stream(port, f"{'in' if is_input else 'out'}{len(self.streams)}", is_input)
        self.streams.append(stream)
        return stream

    def compile(
        self,
        out_prefix: str = "out",
        libs: Sequence[str] = (),
        cslc_prefix: str = "",
        save_port_map: bool = False,
        f16_type: str = "f16",
    ) -> Artifacts:
        """Route, compile and write the folder `out_prefix`."""
        arch = self.platform.target.value
        return compile_layout(
            self.regions, self.connections, self.streams, arch, Path(out_prefix), tuple(map(Path, libs))
        )
