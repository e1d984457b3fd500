"""A folder for the import path of host programs: the modules that they import by the vendor's names."""
