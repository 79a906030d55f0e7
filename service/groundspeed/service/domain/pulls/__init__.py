"""Pull requests as the service sees them, whatever forge they live on: events, commands, reports. Pure."""
