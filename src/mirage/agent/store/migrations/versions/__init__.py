"""One module a version; a script never changes once it was released."""
