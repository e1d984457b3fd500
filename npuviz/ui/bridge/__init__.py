"""Connect sessions to widgets: own the worker thread, and report what happens there by Qt signals.

May import the workbench. One object per kind of thing that lives outside the window's thread.
"""
