"""Distillation into small decision trees that people read, edit and run."""
