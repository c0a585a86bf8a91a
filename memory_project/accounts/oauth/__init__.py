"""OAuth 2.1 for MCP clients, with the views and models of django-oauth-toolkit."""
