"""What rows add up to: weights for each score, with which any fit can do."""
