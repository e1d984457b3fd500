"""The memory panel: map of a memory now, lifetimes of its ranges over cycles, and its contents as numbers."""
