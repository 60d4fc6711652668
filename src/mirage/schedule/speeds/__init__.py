"""How fast does a job run where it sits? Tables of measured step times, and the law that turns them into progress."""
