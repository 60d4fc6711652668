"""Training: methods by name, stored steps, rolling origin, and the choice by link size."""
