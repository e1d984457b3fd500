"""From files to a program: layouts, compiled folders, folders with command scripts."""
