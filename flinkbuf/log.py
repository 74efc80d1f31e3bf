"""The logger of flinkbuf: everything that it tells apart from results and exceptions, under one name."""

import logging

logger = logging.getLogger("flinkbuf")
