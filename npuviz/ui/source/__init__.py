"""The source panel: program text of an element, breakpoints in the gutter, variables."""
