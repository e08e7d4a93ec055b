"""A Markov logic model of papers that link to each other, and of the one topic that a paper may have."""

MARKOV = """
topic = {Logic, Vision}
Link(paper, paper)
Has(paper, topic!)
Score(paper): real
1.5 Link(x, y) ^ Has(x, t) => Has(y, t)
0.4 Has(x, Logic)
0.5 Score(x) ^ Has(x, Vision)
Link(x, x) => Has(x, Logic).
"""
