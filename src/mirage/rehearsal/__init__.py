"""Rehearsals: does a training leave on the warning, and does the next job resume?"""
