"""The lifecycle: which requests are due, what each status does, what becomes of the outcome."""
