"""Turn files into a program: layouts, compiled folders, folders with command scripts."""
