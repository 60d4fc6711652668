"""What schedulers that are asked in rounds share: columns of the view in a fixed order, and places of workers."""
