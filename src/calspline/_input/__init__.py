"""What users pass, checked once, where it enters."""
