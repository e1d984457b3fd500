"""What the commands of the window do, grouped by menu: file, run, view, help.

May import bridge, dialogs, widgets, theme and the workbench. A new command is one `Command` in the
function of its menu; keys follow docs/keys.md.
"""
