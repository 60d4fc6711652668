"""Training: methods by name, steps that survive a power cut, rolling origin, and the choice by link size."""
