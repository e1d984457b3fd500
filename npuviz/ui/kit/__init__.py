"""Parts that all panels of the window share: the base class of panels, tables, pictures, painting."""
