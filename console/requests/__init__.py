"""What the list of requests shows above its rows."""
