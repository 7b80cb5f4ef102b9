"""The days after a fit: drift, evidence that may be looked at daily, and what to expect before labels come."""
