"""The Model Context Protocol server: `npuviz mcp`, over standard input and output.

`server` starts it, `tools` has a function for each tool, `answers` keeps answers short, `folders` keeps the
process inside the folders that the user gave. Needs the package `mcp` (`pip install "npuviz[mcp]"`).
"""
