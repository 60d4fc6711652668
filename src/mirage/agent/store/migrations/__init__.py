"""How the store's tables came to be: one script a version, run by alembic."""
