"""How people see the machine: description, listing, probes, contents and reports."""
