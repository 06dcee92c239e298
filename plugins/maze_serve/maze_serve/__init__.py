"""`maze serve`: a policy as an HTTP server on this machine."""
