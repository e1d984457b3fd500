"""Hold the modules that host programs import by the vendor's names: this folder is on their import path."""
