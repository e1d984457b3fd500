"""Docks. Each file holds one panel and exports SPEC; it is found through the entry points `npuviz.panels`.

May import bridge, models, theme, widgets, the workbench and below; never another panel.
"""
