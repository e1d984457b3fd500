"""The memory panel: what a memory holds now, what it held when, and the numbers inside."""
