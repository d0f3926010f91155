"""What does a program conserve: the walk, the weights, the certificate?"""
