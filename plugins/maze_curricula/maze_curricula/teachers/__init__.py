"""The teachers of the distribution."""
