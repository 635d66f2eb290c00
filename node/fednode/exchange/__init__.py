"""The exchange with peers. gRPC reads its settings when it is imported, so they stand here, before any module of ours does."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # the exchange says in its own words what goes wrong
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # workers are exec'ed and never use the daemon's gRPC
