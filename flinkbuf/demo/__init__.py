"""A year of real flights, aircraft by aircraft: the program behind `make demo`."""
