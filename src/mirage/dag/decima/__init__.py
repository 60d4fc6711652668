"""Deep schedulers of DAG jobs as compiled forward passes: published networks and our own."""
