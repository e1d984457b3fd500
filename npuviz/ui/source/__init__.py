"""The source panel: program text with current line, breakpoints and costs, and variables of an element."""
