"""Schedulers of stages that fit on a page: small trees that people read, edit and run, learnt from deep ones."""
