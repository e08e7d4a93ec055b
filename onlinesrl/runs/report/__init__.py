"""The report of a run: one HTML file without scripts that opens offline and says what happened."""

from onlinesrl.runs.report.examples import ExampleRow
from onlinesrl.runs.report.page import write_report
from onlinesrl.runs.report.weights import WeightRow

__all__ = ["ExampleRow", "WeightRow", "write_report"]
