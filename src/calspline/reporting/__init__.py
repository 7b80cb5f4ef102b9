"""The report: sets of predictions evaluated on one self-contained HTML page.

Its charts are the only code that writes SVG; plots with matplotlib are drawn by the
``plot`` methods of results (:mod:`calspline.display`).
"""
