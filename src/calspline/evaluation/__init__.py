"""How good probabilities are: scores, decompositions, tests, comparisons. Nothing here depends on an estimator."""
