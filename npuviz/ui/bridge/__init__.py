"""Between sessions and widgets: owns the worker thread, speaks Qt signals.

May import the workbench. One object per kind of thing that lives outside the window's thread.
"""
