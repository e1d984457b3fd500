"""Export traces to files of other tools; each format is a plug-in.

May import trace and base. A new format is one file with a frozen dataclass that implements
`exporter.Exporter`, and a line under the entry points `npuviz.exporters`.
"""
