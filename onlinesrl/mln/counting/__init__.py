"""Counting satisfied groundings without grounding (#SG; Sarkhel et al. 2016)."""
