"""The compare panel: differences between the open run and another one."""
