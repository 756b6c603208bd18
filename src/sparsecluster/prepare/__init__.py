"""From blocks to rows, repeatably: reading, preparing, converting."""
