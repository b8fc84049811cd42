"""What refuses a bundle (`gates`, then `validations`), and what only causes a warning (`requirements`)."""
