"""The inspector: describes the selected thing on a page of text, numbers and links."""
