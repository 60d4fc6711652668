"""Running policies without waiting for them: a question is asked, and its answer used when it comes."""
