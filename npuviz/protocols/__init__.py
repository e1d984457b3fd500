"""Servers through which other programs use npuviz: MCP for agents, DAP for editors.

Both are built on npuviz.api and on the commands of the text debugger; neither knows a window or a target.
"""
