"""How good probabilities are: scores, decompositions, tests, comparisons. Knows no estimator."""
