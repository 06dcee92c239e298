"""What algorithms share that learn values from replay: critics, targets, losses."""
