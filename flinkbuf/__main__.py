"""``python -m flinkbuf``."""

import sys

from flinkbuf.cli import main

sys.exit(main())
