"""What a refusal of the API server means: its reason and message, and the rights that an account lacks."""
