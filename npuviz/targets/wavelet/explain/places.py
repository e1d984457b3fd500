"""Name PEs and source lines of a wafer, for sentences."""

from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.wafer import Channel


class Places:
    """Look up names; never changes anything."""

    def __init__(self, engine: Engine, listing: WaveletListing) -> None:
        self._engine = engine
        self._listing = listing

    def name(self, node: int) -> str:
        """Return "PE(x,y)" in coordinates of the rectangle; "" for no node."""
        nodes = self._engine.program.nodes
        return f"PE({int(nodes.x[node])},{int(nodes.y[node])})" if 0 <= node < len(nodes.x) else ""

    def source(self, instruction: int) -> str:
        """Return the source line of an instruction as "pe.csl:12", "" if unknown."""
        if not 0 <= instruction < len(self._listing):
            return ""
        place = self._listing.place_of(instruction)
        return self._text(place.file, place.line) if place is not None else ""

    def route_source(self, program: int, node: int, color: int) -> str:
        """Return where a program configures a color of a node's router, "" if unknown."""
        nodes, wafer = self._engine.program.nodes, self._engine.wafer
        channels: tuple[Channel, ...] = wafer.channels.get((int(nodes.x[node]), int(nodes.y[node])), ())
        if program >= 0:
            channels += wafer.programs[program].channels
        place = next((channel.place for channel in channels if channel.color == color), None)
        return self._text(place.file, place.line) if place is not None else ""

    def _text(self, file: int, line: int) -> str:
        sources = self._listing.sources
        return f"{sources[file].name}:{line}" if 0 <= file < len(sources) else ""
