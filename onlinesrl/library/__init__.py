"""The library: models, learners and answers as Python objects (``import onlinesrl``)."""
