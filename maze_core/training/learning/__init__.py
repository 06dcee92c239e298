"""The gradient step: one learner, or several that share each batch."""
