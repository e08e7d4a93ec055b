"""What everything stands on: errors, examples, arrays, what learners, updates and languages are."""
