"""Access control: authentication, roles and the audit."""
