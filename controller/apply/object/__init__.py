"""One object: looked up, sent, released, and its managed fields corrected. Each step is one request."""
