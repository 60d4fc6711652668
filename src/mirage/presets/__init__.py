"""Presets: which signal, lead and settings a training framework or a server needs."""
