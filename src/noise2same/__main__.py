"""`python -m noise2same`: the command line."""

from noise2same.cli.main import main

if __name__ == "__main__":
    main()
