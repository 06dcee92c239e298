"""Writing new plugin packages: `maze plugins new`."""
