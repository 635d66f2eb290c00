"""The parts of silos.py: data and partition, a cache, workers, steps, rows and views."""
