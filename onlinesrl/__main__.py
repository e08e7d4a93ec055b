"""``python -m onlinesrl`` is the command line."""

from onlinesrl.commands.start import main

if __name__ == "__main__":
    main()
