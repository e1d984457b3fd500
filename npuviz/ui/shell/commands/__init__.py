"""The commands of the window, grouped by menu or subject, and the Qt actions made from them."""
