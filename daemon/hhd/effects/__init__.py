"""What a guest may ask of the world and who answers it: the model service, the tools of this device, the person."""
