"""What the program decides by itself, one decision a file."""
