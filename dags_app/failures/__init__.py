"""Failures of a round: records of failed jobs, clusters, the recovery decision and the repair of groups."""
