"""A year of real flights, aircraft by aircraft: the program behind `make demo`; and a morning of them to try things on.

Attributes
----------
FLIGHTS : Path
    A CSV file: 105 departures from New York on the first morning of 2013, by the times that they left at.
"""

from pathlib import Path

FLIGHTS = Path(__file__).with_name("morning.csv")
