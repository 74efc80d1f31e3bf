"""The bindings of csrc/, one module a stem. Users find what they need in `flinkbuf` itself."""
