"""`fednode demo`: a federation of real nodes on this machine, measured, left by one node, and compared with a fresh one."""
