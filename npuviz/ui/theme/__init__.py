"""Colours, fonts, sizes and icons by role. May import workbench.resources; tokens are in resources/themes."""
