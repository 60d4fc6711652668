"""Made-up traces, fake components, real servers and references for several tests."""
