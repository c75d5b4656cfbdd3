"""What people and programs read: a file per form. Knows results, not labs."""
