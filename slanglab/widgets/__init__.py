"""What people see: reports, pictures, inspectors, and their static twins."""
