"""Plug-ins that turn a trace into other tools' files.

May import trace and base. A new format is one file with a frozen dataclass that obeys
`exporter.Exporter`, and a line under the entry points `npuviz.exporters`.
"""
