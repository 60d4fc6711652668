"""What several tests need: made-up traces, fake components, real servers, reference implementations."""
