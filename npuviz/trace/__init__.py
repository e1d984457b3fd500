"""Record what happened: event rows, the column store, levels of detail, bundles on disk, queries.

May import base only. What is recorded is declared in `schema`.
"""
