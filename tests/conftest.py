from hypothesis import HealthCheck, settings

# No time limits: a machine that is busy is not a failure. A failing example is printed with the line that repeats it.
settings.register_profile(
    "slanglab", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("slanglab")
