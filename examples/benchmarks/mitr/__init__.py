"""The parts of fedmitr.py: baselines that learn from classifiers, calls, rows, views and the theory's figures."""
