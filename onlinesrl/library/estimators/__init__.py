"""Estimators in the manner of scikit-learn and river: a sequence tagger, a classifier of linked things."""
