"""Environments with interfaces other than gymnasium's, as environments of gymnasium."""
