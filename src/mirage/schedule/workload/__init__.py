"""Workloads of GPU jobs: jobs in order of submission, and their readers."""
