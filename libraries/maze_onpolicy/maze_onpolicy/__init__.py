"""What on-policy algorithms share: rollouts and what collects them, returns and advantages, losses."""
