"""Deep schedulers of DAG jobs: the published Decima networks, and one of our own, as compiled forward passes."""
