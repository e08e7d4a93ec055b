"""The report of a run: one HTML file without scripts that opens offline and says what happened."""

from onlinesrl.run.report.examples import ExampleRow
from onlinesrl.run.report.page import write_report
from onlinesrl.run.report.weights import WeightRow

__all__ = ["ExampleRow", "WeightRow", "write_report"]
