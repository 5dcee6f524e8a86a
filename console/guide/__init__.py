"""Guide: what to do about each alert and each reason of a hold."""
