"""What a slice needs: shape, capacity, zone, labels. New ways to satisfy a demand belong here."""
