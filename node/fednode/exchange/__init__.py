"""The exchange with peers: what crosses the network, and who may say what."""
