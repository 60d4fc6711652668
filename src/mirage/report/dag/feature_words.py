"""Meanings of the features of a tree, as text next to its picture."""

from __future__ import annotations

FEATURE_WORDS = {
    "executors": "in the cluster",
    "jobs": "in the system",
    "crowding": "jobs per executor",
    "backlog": "work of all jobs per executor",
    "free": "executors that need a destination, as a share of all",
    "own": "the executors that need a destination belong to this job",
    "new": "no executor works for the job or is on its way",
    "holds": "executors at the job, on their way and promised",
    "work": "of the job, in executor-seconds",
    "work_times_least": "work of the job, over the least of any job's",
    "work_share": "work of the job, of that of all jobs",
    "drains_in": "work of the job over the executors that it holds",
    "age": "since the job arrived",
    "job_path": "the job's longest path from here",
    "tasks_left": "of the job, not started",
    "stages_left": "of the job, not finished",
    "choices": "stages of the job that may be picked",
    "ready": "the stage's tasks can start at once",
    "starts_in": "about when the stage's tasks can start",
    "tasks": "of the stage, that no executor is promised for",
    "task_time": "of the stage's task started last",
    "stage_work": "of the stage, in executor-seconds",
    "stage_path": "the longest path from the stage's start to the job's end",
    "slack": "by which the stage's path to the end is shorter than the longest",
    "work_below": "of the stage and all that come after it",
    "here": "executors at the stage, on their way and promised",
    "before": "stages of the job that may be picked and come first in its order",
    "smaller": "stages of the job that may be picked and have less work",
    "children": "stages that need the stage's output",
}
"""Indexed by the name of a feature; ``mirage.dag.distilled.columns`` computes them."""
