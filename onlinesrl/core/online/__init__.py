"""What the online learners of both languages share."""
