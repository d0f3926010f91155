"""Runs: inputs made arrays, time advanced in blocks, frames and observables collected."""
