"""What the pages ask, one function a page: load, shape, and nothing else. No list analyses anything."""
