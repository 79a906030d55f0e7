"""Signing in with an identity provider, and the cookies that say so."""
