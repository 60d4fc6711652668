"""The tests: a package that mirrors the package under test."""
