"""``python -m mirage`` is ``mirage``."""

import sys

from mirage.foreign_library import foreign_library


def main() -> int:
    """Runs a command and returns its exit status, even if no library can be imported."""
    try:
        from mirage.cli import main as run_command
    except Exception as error:
        if not (foreign := foreign_library(error)):
            raise
        print(f"mirage: error: {foreign}", file=sys.stderr)
        return 1
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
