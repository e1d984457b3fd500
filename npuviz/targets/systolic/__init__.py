"""Weight-stationary multi-core NPUs as ONNXim models them.

`target` loads, `compiler` lowers, `kernels` run, `machine` shows. May import what every target may. A new
operator goes to its family in `compiler/`, a new figure to `presets` or a hardware file.
"""
