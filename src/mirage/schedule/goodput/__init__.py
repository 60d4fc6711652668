"""Goodput: how fast a training job learns on so many GPUs, fitted to what the job has measured of itself."""
