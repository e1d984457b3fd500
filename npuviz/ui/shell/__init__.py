"""The window around the panels: application, docks, toolbars, palette, start page, and all commands.

May import bridge, dialogs, kit, theme and the workbench. A new command is one `Command` in the `all` method
of its file in `commands`; keys follow docs/keys.md.
"""
