"""`python -m fednode_cli`: the same as the console script."""

from fednode_cli.main import main

main()
