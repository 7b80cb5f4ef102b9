"""Monitoring of fitted calibrators, and expectations before labels are available."""
