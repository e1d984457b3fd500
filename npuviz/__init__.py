"""npuviz: a visual, cycle-level debugger for neural processing units."""

__version__ = "0.1.0"
