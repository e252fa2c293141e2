"""Classes: their bases, their constructors, and where objects are made."""
