"""Programs run by the command plugin: starting and ending them whatever they do, and reading what they print."""
