"""The Model Context Protocol server: `npuviz mcp`, over standard input and output.

`server` starts it, `tools` has a method for each tool, `answers` keeps answers short, `folders` restricts the
process to the folders that the user gave, `wire` reads and writes messages. Needs the package `mcp` (`pip
install "npuviz[mcp]"`).
"""
