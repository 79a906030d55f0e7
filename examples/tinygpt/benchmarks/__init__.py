"""What is measured of this project. See groundspeed.toml."""
