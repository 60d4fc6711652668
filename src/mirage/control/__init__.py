"""Control of a real cluster: the GPU schedulers of the simulator decide on views of Slurm."""
