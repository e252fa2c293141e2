"""Devices: what names one, and what it may be."""
