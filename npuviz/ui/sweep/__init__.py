"""The sweep panel: runs of a design space, their Pareto front, and the effect of every axis."""
