"""The window: the only layer that knows Qt.

May import the workbench and everything below it. A panel is a folder here plus an entry point; a colour is
a token in resources/themes; an action is a Command of the workbench.
"""
