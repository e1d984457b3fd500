"""Stand in for the platforms that a host program can run on: here always this simulator."""

from dataclasses import dataclass
from enum import Enum

from npuviz.base.errors import UsageError


class SdkTarget(Enum):
    """An architecture to run on."""

    WSE2 = "wse2"
    WSE3 = "wse3"


@dataclass(frozen=True)
class SimfabConfig:
    """Settings of the vendor's simulator; accepted so that programs run, but without effect here."""

    num_threads: int = 1
    suppress_trace: bool = True
    dump_core: bool = False
    core_path: str = ""


@dataclass(frozen=True)
class Platform:
    """The simulator of an architecture."""

    target: SdkTarget
    config: SimfabConfig


def get_simulator(config: SimfabConfig | None = None, target: SdkTarget = SdkTarget.WSE3) -> Platform:
    """Return the simulator of an architecture."""
    return Platform(target, config or SimfabConfig())


def get_system(cmaddr: str) -> Platform:
    """Raise UsageError: there is no system to reach."""
    raise UsageError(f"cmaddr={cmaddr!r}: npuviz simulates; leave the address of a system out")


def get_platform(
    cmaddr: str | None = None,
    config: SimfabConfig | None = None,
    target: SdkTarget = SdkTarget.WSE3,
) -> Platform:
    """Return the simulator; raise UsageError if the address of a system is given."""
    return get_system(cmaddr) if cmaddr else get_simulator(config, target)
