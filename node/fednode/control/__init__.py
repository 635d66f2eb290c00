"""The local control service: what the command line asks of a running daemon."""
