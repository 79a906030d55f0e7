"""Who is told of what: channels, what is to be told, and its delivery."""
