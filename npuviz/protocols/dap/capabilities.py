"""The capabilities that the adapter declares to clients."""

from typing import Any

CAPABILITIES: dict[str, Any] = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsEvaluateForHovers": True,
    "supportsStepBack": True,
    "supportsSetVariable": True,
    "supportsCompletionsRequest": True,
    "supportsRestartRequest": True,
    "supportsExceptionInfoRequest": True,
    "supportsTerminateRequest": True,
    "supportsDataBreakpoints": True,
    "supportsDataBreakpointBytes": True,
    "supportsReadMemoryRequest": True,
    "supportsWriteMemoryRequest": True,
    "supportsDisassembleRequest": True,
    "supportsBreakpointLocationsRequest": True,
    "supportsSteppingGranularity": True,
    "supportsInstructionBreakpoints": True,
    "supportsLoadedSourcesRequest": True,
    "exceptionBreakpointFilters": [
        {
            "filter": "hazards",
            "label": "Hazards",
            "description": "Stop where the machine finds a hazard; where finding costs time, at the end.",
            "default": False,
        }
    ],
}
"""There is no filter for faults and deadlocks of the chip: they always stop."""
