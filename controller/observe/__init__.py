"""What is there and how it is: watches, the small records they keep, and health. Nothing is decided or written here."""
