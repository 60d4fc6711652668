"""In what order inside a job? Jobs made of stages, their simulator, and schedulers of stages."""
