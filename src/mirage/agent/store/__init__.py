"""The agent's store: protocol, SQL implementation, schema, migrations, lease."""
