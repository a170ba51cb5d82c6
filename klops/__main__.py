"""``python -m klops``."""

from klops.cli.main import main

if __name__ == "__main__":
    main()
