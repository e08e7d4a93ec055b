"""Inference in PSL: values that minimise hinge losses."""
