"""The settings of a program: command lines, dataclasses, dictionaries."""
