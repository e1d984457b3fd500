"""The window: the only layer that knows Qt.

May import the workbench and everything below it. A dock is a file in `panels` plus an entry point;
a colour is a token in resources/themes; an action is a Command of the workbench.
"""
