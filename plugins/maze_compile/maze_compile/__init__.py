"""Steps of the learner that are recorded once and then repeated: CUDA graphs, and code that a compiler made."""
