"""What the batch learners of both languages share."""
