"""``python -m solspace`` is the command line."""

from solspace.cli import main

if __name__ == "__main__":
    main()
