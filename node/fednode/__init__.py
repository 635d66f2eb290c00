"""fednode: a node of a federation that exchanges signed generators of images, and never images."""

import os

# gRPC reads these when it is first imported. It would write its own noise to stderr, where the node says in its own words
# what went wrong; and its handlers around fork are of no use to a node whose workers are started with exec.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
