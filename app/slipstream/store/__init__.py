"""What stays on disk: chats, settings, pace records and the list of local models."""
