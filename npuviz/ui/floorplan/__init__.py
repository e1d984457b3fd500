"""The floorplan: the machine drawn to scale, coloured by what each unit does now."""
