"""The report of a run: one HTML file, offline and without scripts."""

from onlinesrl.runs.report.examples import ExampleRow
from onlinesrl.runs.report.page import curves_page, write_report
from onlinesrl.runs.report.weights import WeightRow

__all__ = ["ExampleRow", "WeightRow", "curves_page", "write_report"]
