"""The hallway: joins the rooms, which have no doors to one another."""
