"""A chain's creation, its submissions, its tag and its history."""
