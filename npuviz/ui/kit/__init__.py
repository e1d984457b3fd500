"""What features of the window share: the contract of a panel, tables, pictures, painting."""
