"""Pictures: displays for matplotlib, and the report as one HTML file."""
