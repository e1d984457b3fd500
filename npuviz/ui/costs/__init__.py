"""What a run was spent on: a table of operators, instructions, kinds of work or units."""
