"""Adapters between programs, traces and widgets: plain data, no widgets, no colours.

May import program, trace, sim, debug and workbench; Qt only where a table model needs it. One file
per thing that is shown.
"""
