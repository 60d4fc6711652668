"""Jobs made of stages: templates, a generator of them, and sequences of arrivals."""
