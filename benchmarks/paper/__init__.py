"""The experiments of the paper, with its numbers beside ours."""
