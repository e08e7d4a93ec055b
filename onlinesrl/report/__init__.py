"""The report of a run: one HTML file without scripts that opens offline and says what happened."""

from onlinesrl.report.examples import ExampleRow
from onlinesrl.report.page import write_report
from onlinesrl.report.weights import WeightRow

__all__ = ["ExampleRow", "WeightRow", "write_report"]
