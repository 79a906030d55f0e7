"""What the asv plugin needs of asv: its configuration, environments and runner are called, never rewritten."""
