"""The commands of the command line; what a command needs is imported when it is called."""
