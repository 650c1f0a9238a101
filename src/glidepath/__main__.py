"""`python -m glidepath` is the same as the `glidepath` command."""

import sys

from glidepath.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
