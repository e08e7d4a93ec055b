"""What explanations of both languages consist of."""
