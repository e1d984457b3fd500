"""Widgets that know nothing of sessions: palette, bars, start page, empty states, numbers.

May import theme and the workbench. One widget per file.
"""
