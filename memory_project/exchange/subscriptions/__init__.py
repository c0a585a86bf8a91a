"""Subscriptions to sources: a folder or a git repository of texts is kept in step with a person's memories."""
