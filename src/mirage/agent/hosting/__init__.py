"""Hosting of the agent: passes from cron or scrontab, a job, and limits of a site."""
