"""What another run of the model, or another run altogether, wins and loses."""
