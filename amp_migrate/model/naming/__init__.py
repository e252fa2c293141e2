"""What names are bound to: scopes, definitions, imports."""
