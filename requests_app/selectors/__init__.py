"""Read requests: lists, progress, forecasts, diagnosis and statistics. Nothing here writes."""
