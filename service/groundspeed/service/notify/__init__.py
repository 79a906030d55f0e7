"""Telling people and programs: what is said, and by which way it is sent."""
