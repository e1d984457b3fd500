"""The command line: one file per subcommand, each about ten lines over the workbench.

May import everything. A new subcommand is a file `<name>.py` with a typer function called `command`
(its docstring is the help text) and its name in `main.SUBCOMMANDS`. Only the module of the chosen
subcommand is imported, and heavy packages only inside functions: `npuviz --version` stays instant.
Errors are raised as NpuvizError; `main` turns them into one line and exit code 2. Other exit codes:
`raise typer.Exit(code)`.
"""
