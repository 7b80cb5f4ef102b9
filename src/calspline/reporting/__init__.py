"""The report: sets of predictions judged on one self-contained HTML page."""
