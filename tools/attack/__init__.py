"""An attack on the compiler: random programs, and checks that share no code with it."""
