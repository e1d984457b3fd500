"""Read and write files: bytes on disk to plain data and back; knows nothing of simulation.

May import program and base. A new file format gets a module or a folder of its own, named after it; see
docs/adding-a-format.md.
"""
