"""``python -m mirage`` is ``mirage``."""

import sys

from mirage.cli import main

sys.exit(main())
