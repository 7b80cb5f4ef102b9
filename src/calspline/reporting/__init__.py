"""``report``: what happened to the probabilities, on one page that needs nothing else."""
