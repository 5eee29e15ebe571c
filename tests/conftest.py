"""Settings every test shares."""

from hypothesis import HealthCheck, settings

# A shared machine makes single examples slow now and then; time is measured in bench/, not here.
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
