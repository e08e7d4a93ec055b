"""The report of a run: one HTML file, offline and without scripts."""

from onlinesrl.run.report.examples import ExampleRow
from onlinesrl.run.report.page import write_report
from onlinesrl.run.report.weights import WeightRow

__all__ = ["ExampleRow", "WeightRow", "write_report"]
