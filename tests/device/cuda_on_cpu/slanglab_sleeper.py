"""A worker that never answers."""

import time


def main(_options):
    time.sleep(600)
