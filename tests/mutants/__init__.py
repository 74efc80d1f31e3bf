"""Small changes to what decides, one at a time: would a test fail?"""
