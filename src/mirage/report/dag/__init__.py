"""Tables and charts of stage schedulers."""
