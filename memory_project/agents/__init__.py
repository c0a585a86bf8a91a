"""What programs around an agent ask for: the briefing, and the endpoints that hooks of agents call."""
