"""How well does the simulator know this cluster?"""
