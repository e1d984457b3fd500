"""What the commands of the window do, a file per menu, and the actions made from them."""
