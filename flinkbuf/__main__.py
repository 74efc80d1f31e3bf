"""``python -m flinkbuf``."""

import sys

from flinkbuf.commands.cli import main

sys.exit(main())
