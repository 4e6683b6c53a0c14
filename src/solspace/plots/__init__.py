"""Pictures: (results, axes) to axes; nothing is computed here."""
