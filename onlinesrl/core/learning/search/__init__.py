"""Search for weights that make a metric best (Srinivasan 2020, chapter 6), for every language."""
