"""What ran? One job table, its readers, its statistics, and a generator of workloads like a real one."""
