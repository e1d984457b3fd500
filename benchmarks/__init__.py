"""What npuviz is measured by. Each module has `run() -> list[Row]`; `npuviz bench NAME` prints it."""
