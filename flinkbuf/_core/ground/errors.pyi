"""No names for Python: other bindings cimport `check` and `fail`."""
