"""The toolkit of the compiled code: what the kernels of all engines share."""
