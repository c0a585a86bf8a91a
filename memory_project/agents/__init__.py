"""Services for agents' programs: the briefing, and the endpoints that their hooks call."""
