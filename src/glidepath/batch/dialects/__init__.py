"""How each batch system is spoken to: one file each, pure functions from values to words and back."""
