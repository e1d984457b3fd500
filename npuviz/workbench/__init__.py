"""The application without widgets: opening files, running, commands, jobs, settings, selection.

May import everything below (targets only through npuviz.base.registry), never Qt. What a window, a
command line and a script all need goes here; a new user action is a `Command` (see commands.py).
"""
